"""A small grammar of children's stories: the only training text of the default model.

A story has a cast (hero, friend, sometimes a third animal), an opening, one plot and a closing. The cast is chosen once,
so names, kinds, homes, food and pronouns are consistent from the first sentence to the last; a plot sets the weather that it
needs, such as wind for kites.

The templates use two notations. `[a|b|c]` is one of the alternatives and may be nested; an empty alternative omits the words.
`{slot}` is a value of the story; in capitalised form, `{He}`, its first letter is a capital. Sentence starts are
capitalised and `a` becomes `an` afterwards. Slots: n, k, he, him, his, home, food of the hero; m, mk, she, her, hers, mhome,
mfood of the friend (she = he or she, her = him or her, hers = his or her); o, ok of the third animal; and those that the plot adds.
"""

import random
import re

# kind: (home, favourite food, adjectives)
KINDS = {
    "fox": ("a den under the roots", "blackberries", "little, clever, red, quick brown, young"),
    "rabbit": ("a burrow under the hedge", "carrots", "little, white, shy, quick, fluffy, young"),
    "mouse": ("a hole as round as a cheese", "cheese", "tiny, brave, grey, little, polite, hungry"),
    "bear": ("a deep warm cave", "honey", "big, brown, gentle, sleepy, hungry, kind"),
    "owl": ("a hollow tree", "toast", "wise, old, sleepy, little, grey, polite"),
    "hedgehog": ("a nest of dry leaves", "apples", "small, round, shy, prickly, brave, little"),
    "squirrel": ("a house made of twigs", "nuts", "quick, red, cheerful, little, young, clever"),
    "frog": ("a pond full of lilies", "jam", "green, cheerful, small, noisy, brave, little"),
    "duck": ("a nest of soft reeds", "bread", "yellow, proud, little, noisy, cheerful, young"),
    "cat": ("a basket by the fire", "fish", "black, proud, lazy, clever, soft, little"),
    "dog": ("a small house with a red roof", "sausages", "lazy, big, friendly, brown, brave, little"),
    "badger": ("a den deep in the ground", "mushrooms", "grumpy, old, wise, kind, big, polite"),
    "turtle": ("a mossy house of stones", "lettuce", "slow, old, wise, green, gentle, small"),
    "dragon": ("a cave behind the waterfall", "hot peppers", "small, green, friendly, shy, young, polite"),
}
HE = "Pip Milo Oscar Finn Hugo Bruno Otto Theo Max Sam Rufus Leo".split()
SHE = "Luna Mia Rosie Daisy Ruby Poppy Nina Ella Molly Tilly Hazel Ivy".split()
PLACES = ["in the forest", "by the river", "on the green hill", "near the old mill", "at the edge of the meadow", "in a quiet garden",
          "by the blue lake", "in a small village", "under the big oak", "at the end of a long lane", "not far from the sea"]
THINGS = ["red scarf", "blue hat", "golden key", "yellow boot", "silver bell", "little drum", "wooden spoon", "green umbrella", "old map",
          "brass lantern", "warm blanket", "shiny button"]
TREATS = ["pancakes", "apple pie", "warm bread and jam", "hot chocolate", "honey cake", "tea and biscuits", "pumpkin soup", "cherry tart"]

WEATHER = {
    "sunny": ["The sun was shining and the [bees|birds] were [busy|singing].", "It was warm, and all the flowers were open.",
              "There was not a cloud in the sky.", "The sun was so bright that even the stones looked happy."],
    "rainy": ["The rain went drip, drip, drip on the leaves.", "It was raining, and [every path|the whole world] was one long puddle.",
              "Grey clouds hung over the hills, and it rained all day.", "It rained so hard that the snails wore hats."],
    "windy": ["The wind was blowing, and the leaves danced [in the air|down the lane].", "All the trees were waving their arms.",
              "The wind was so strong that the birds flew backwards.", "A cold wind was blowing [from the sea|over the hills]."],
    "snowy": ["Snow had fallen in the night, and the whole world was white.", "It was cold, and soft snow lay on every branch.",
              "It was snowing, and all the paths were gone.", "The snow was so deep that the fence had disappeared."],
    "night": ["The stars were out, and everything was quiet.", "The moon was round and bright, like a big silver plate.",
              "It was very late, and everybody else was asleep.", "The moon was high in the sky, and it was very quiet."],
    "foggy": ["The fog was as thick as porridge.", "In the fog, the trees looked like tall grey giants."],
}
WHEN = {"sunny": "[morning|afternoon|summer day|spring morning]", "rainy": "[morning|afternoon|autumn day]", "windy": "[morning|afternoon|autumn day]",
        "snowy": "[morning|winter day|afternoon]", "night": "[night|evening|summer night]", "foggy": "[morning|autumn day|afternoon]"}

OPENINGS = [
    "Once upon a time[,|] there was a {adj} {k} named {n}. {He} lived in {home} {place}.",
    "Once upon a time there was a {adj} {k} [named|called] {n} who lived in {home}.",
    "Once upon a time, {place}, there lived a {adj} {k}. {His} name was {n}.",
    "Once upon a time[,|] a {adj} {k} named {n} lived {place}.",
    "Once there was a {adj} {k} called {n}, who lived {place}.",
    "There was once a {adj} {k} named {n}. [Everybody {place} knew {him}.|{He} lived in {home} {place}.]",
    "Long ago, {place}, there lived a {adj} {k} named {n}.",
    "{n} was a {adj} {k} who lived {place}.",
    "{n} was a {adj} {k}. {He} lived in {home}[, and {he} liked it very much|].",
    "{n} the {k} lived in {home} {place}.",
    "The {adj} {k} lived in {home} {place}. {His} name was {n}.",
    "The {adj} {k} was called {n}, and {he} lived {place}.",
    "A {adj} {k} named {n} lived {place}.",
    "{Place} there lived a {adj} {k} [named|called] {n}.",
    "In {home}[ {place}|], there lived a {adj} {k} named {n}.",
    "This is the story of {n}, a {adj} {k} who lived {place}.",
    "Far away, {place}, there was a {k} named {n}. {He} was very {adj1}.",
]
TRAITS = [
    "{He} loved {food} more than anything in the world.", "{He} ate {food} for breakfast, and sometimes for dinner too.",
    "{He} was very small, but {he} had very big ideas.", "Every evening {he} counted the stars, and every evening {he} lost count.",
    "{He} had a {thing2}, and {he} never went anywhere without it.", "{He} was never late, except on Mondays.",
    "{He} had many friends, but {his} best friend was {m} the {mk}.", "{He} could sing a little, and {he} sang a lot.",
    "{He} wanted to see the whole world before dinner.", "{He} was not afraid of anything, except spiders and baths.",
]
SETTINGS = ["One {when}, {n} [looked out of the window|jumped out of bed|opened the door]. {Weather}", "{Weather}"]
SETTINGS_AT_NIGHT = ["One {when}, {n} [could not sleep|looked out of the window|was still awake]. {Weather}", "{Weather}"]
CLOSINGS = [
    "Then they went home and had {treat}.", "That evening they ate {treat} and laughed until the moon came up.",
    "And from that day on, {n} and {m} were the best of friends.", "After that, {n} and {m} did everything together.",
    "And when they were old and grey, they still told that story.", "{n} went to bed that night with a smile on {his} face.",
    "\"What shall we do tomorrow?\" asked {m}. \"[Nothing at all|The same again|Something with cake]!\" said {n}.",
    "\"[What a day|That was fun]!\" said {n}. \"Let us do it again tomorrow,\" said {m}.", "And they all slept well that night, even the owl.",
    "{n} fell asleep [at once|with a full tummy], and {he} dreamed of {food}.", "And if they have not finished the {treat1}, they are still eating.",
]


class Plot:
    """A kind of story: possible weather, values for its slots, and a list of steps, each a list of alternatives."""

    def __init__(self, weather, steps, **slots):
        self.weather = weather.split()
        self.steps = steps
        self.slots = slots


PLOTS = [
    Plot("sunny rainy windy foggy snowy", [
        ["{n} wanted to go out, but {he} could not find {his} {thing}.", "\"Oh no!\" said {n}. \"My {thing} is gone!\"",
         "That day {n} lost {his} {thing}."],
        ["{He} looked under the [bed|table|chair]. It was not there. {He} looked [in the cupboard|behind the clock|in the teapot]. It was not there [either|, and neither was the tea].",
         "{He} looked up and {he} looked down, but {he} found only [an old sock|a spider|a cold potato]."],
        ["So {he} went to see {m} the {mk}. \"Have you seen my {thing}?\" asked {n}.",
         "On the path {he} met {m} the {mk}. \"Why are you so sad?\" asked {m}. \"I have lost my {thing},\" said {n}."],
        ["\"No,\" said {m}, \"but I will help you look.\" They looked {place2} and {place3}.", "\"Do not cry,\" said {m}. \"Two can look better than one.\""],
        ["[Just then|Suddenly] {m} began to laugh. \"{n},\" {she} said, \"[you are sitting on it|it is on your head|you have it in your hand]!\"",
         "At last they found the {thing} {place2}. A [small bird|family of mice|very old snail] was sleeping in it. \"Shh,\" said {n}. \"[I can wait|Let us come back tomorrow].\"",
         "At last {m} saw something shiny {place3}. It was the {thing}! {n} was so happy that {he} [danced|hugged {m}|jumped into a puddle]."],
    ], thing=THINGS),
    Plot("rainy", [
        ["Then there was a loud noise in the sky. Boom! {n} hid under the [bed|table|blanket].", "In the night the thunder came. \"Boom!\" went the sky, and {n} pulled the blanket over {his} head."],
        ["\"I am not afraid,\" said {n}, very quietly[, from under the bed|].", "\"It is only the clouds,\" {n} told {his} pillow. The pillow was not so sure."],
        ["There was a knock at the door. It was {m} the {mk}, and {she} was wet from head to toe. \"I came to see if you were afraid,\" said {m}, and {she} was shaking.",
         "Knock, knock! Outside stood {m} the {mk}. \"I am afraid of the thunder,\" said {m}. \"May I come in?\""],
        ["\"Come in,\" said {n}. \"We can be afraid together.\"", "\"Two is better than one,\" said {n}, and {he} made some {treat}."],
        ["Then they sang a song, and every time the thunder went boom, they sang [louder|a little louder].", "They told each other jokes, and soon they were laughing more loudly than the thunder."],
        ["At last the storm went away. \"[I think it did not like our song|We were too loud for it],\" said {m}.", "When they stopped, the storm was over, and there was a rainbow over the hills."],
    ]),
    Plot("sunny rainy snowy foggy windy", [
        ["{n} found the biggest basket of {food} that {he} had ever seen.", "{n} had only one small plate of {food} left."],
        ["{He} was just about to eat when {m} the {mk} came by. {Hers} tummy was rumbling.", "Then {he} saw {m} the {mk}. {m} looked thin and sad, for {she} had not eaten all day."],
        ["{n} looked at the {food}. Then {he} looked at {m}. Then {he} looked at the {food} again.", "{n} thought about it for a long time. It was a hard thing to think about."],
        ["\"Would you like some?\" asked {n}. \"Oh, yes please!\" said {m}.", "\"Here,\" said {n}, \"half is for you.\" \"[Thank you|You are very kind],\" said {m}."],
        ["They sat [in the grass|by the fire|on a log] and ate until [nothing was left|they could not move].", "And the strange thing was that half of the {food} tasted twice as good."],
        ["The next day there was a big [box|basket|bag] in front of the door. It was full of {mfood}, and there was a note that said: \"From {m}.\"",
         "The next day {m} came back with a big pot of {mfood}. \"Today it is my turn,\" {she} said."],
    ]),
    Plot("sunny rainy foggy", [
        ["{n} was on {his} way to the lake when {he} heard a voice. \"Help! Help!\" It was {m} the {mk}, and {she} was stuck in {trap}.", "{n} went for a walk, and on the path {he} found {m} the {mk}. {m} was stuck in {trap}."],
        ["\"How did you get in there?\" asked {n}. \"[I saw something tasty|I was looking for {mfood}|I do not want to talk about it],\" said {m}.",
         "\"What are you doing in there?\" asked {n}. \"I am [thinking|waiting|having a rest],\" said {m} with a red face."],
        ["{n} took {her} by the hand and pulled, but {m} did not move. So {he} called {o} the {ok}.", "{n} pulled and pulled, but it was no good. Then {o} the {ok} came by. \"I am very strong,\" said {o}."],
        ["\"One, two, three!\" they shouted, and all of them pulled. Pop! {m} flew through the air and landed in the [pond|hay|mud|flowers].",
         "They pulled once. They pulled twice. The third time there was a loud pop, and all three of them sat in the [mud|grass|pond]."],
        ["\"Thank you,\" said {m}. \"I will never do that again.\" But the next day {she} did.", "\"Thank you, my friends,\" said {m}. \"Who wants {mfood}? I know where there is more.\""],
    ], trap=["a honey jar", "a hollow log", "an old boot", "the garden gate", "a watering can", "a big teapot"]),
    Plot("windy", [
        ["{n} had made a kite out of {stuff}.", "All morning {n} had worked on a kite. It was made of {stuff}."],
        ["{m} the {mk} came to help. \"You hold the string,\" said {n}, \"and I will run.\"", "\"May I come too?\" asked {m} the {mk}. \"Yes,\" said {n}, \"but hold on tight.\""],
        ["The wind took the kite up, and up, and up. It took {n} up too!", "Whoosh went the wind. The kite flew up into the sky, and {n} flew with it."],
        ["\"[Come back|Come down]!\" shouted {m}. \"[I can see the sea|I can see my house|I can see tomorrow]!\" shouted {n}.",
         "From up there the trees looked like [moss|broccoli] and {m} looked like [an ant|a button|a small potato]."],
        ["{m} caught the end of the string and pulled {him} down again.", "Then the wind grew tired, and {n} came down, right in the middle of a [duck pond|haystack|big soft bush]."],
        ["\"Were you afraid?\" asked {m}. \"Only a little,\" said {n}, \"and only at the top.\"", "\"Now it is my turn,\" said {m}."],
    ], stuff=["an old shirt", "paper and string", "{his} grandmother's curtains", "two leaves and a stick"]),
    Plot("sunny", [
        ["{n} wanted to sail across the lake, so {he} made a boat out of {boat}.", "\"Today I am a captain,\" said {n}, and {he} made a boat out of {boat}."],
        ["\"A captain needs a sailor,\" said {m} the {mk}, and {she} jumped in.", "{m} the {mk} came along too, and {she} brought {mfood} for the journey."],
        ["In the middle of the lake the boat began to leak. \"Captain,\" said {m}, \"my feet are wet.\"", "They sailed and they sailed. Then {m} said, \"Is it good when there is water on the inside?\""],
        ["{n} looked for something to stop the hole. All they had was {mfood}.", "\"Quick, give me your {mfood}!\" said {n}."],
        ["{He} stuffed all the {mfood} into the hole, and it [worked|held]. \"That was my lunch,\" said {m}.", "It was a very tasty boat after that. Even the fish said so."],
        ["When they came to the other side, they saw that it was [an island|the same side|somebody's garden].", "They came home wet, hungry and very proud."],
    ], boat=["an old bathtub", "a wooden barrel", "a big pumpkin", "{his} own bed and a broom", "a basket and a bed sheet"]),
    Plot("night", [
        ["{n} looked at the moon and wanted to have it.", "\"I wish I could hold the moon,\" said {n}."],
        ["{He} jumped as high as {he} could, but the moon was too far away. {He} climbed up [a tree|the hill|a ladder], but it was still too far away.",
         "So {he} took a [ladder|long stick|fishing net] and climbed up the highest hill, but the moon only smiled."],
        ["There {he} met {m} the {mk}. \"What are you doing?\" asked {m}. \"I am trying to catch the moon,\" said {n}.",
         "\"You cannot reach it from there,\" said {m} the {mk}, who had been watching for a while."],
        ["\"Come with me,\" said {m}, and {she} took {him} to the pond. There was the moon, right in the water.", "{m} filled a bowl with water and put it on the ground. And look! There was the moon, right in the bowl."],
        ["{n} touched it with one paw. It was cold and wet, and it laughed in little rings.", "{n} sat beside it for a long time and did not say a word."],
        ["\"The moon is for everybody,\" said {m}. \"Even for me?\" asked {n}. \"Even for you,\" said {m}.", "\"[Now it is mine|Good night, moon],\" said {n}. And the moon winked. {m} saw it too."],
    ]),
    Plot("snowy", [
        ["{n} and {m} the {mk} made a big {k} out of snow.", "\"Let us make a snow {k}!\" said {n}. {m} the {mk} thought that a snow {mk} would be better, so they made both."],
        ["They gave it a {thing}, two stones for eyes and a carrot for a nose.", "They used nuts for the buttons, and it wore a {thing}."],
        ["In the night {n} woke up. \"It must be so cold out there,\" {he} thought.", "When it was dark, {n} looked out of the window. The snow {k} looked lonely."],
        ["So {he} took {his} own blanket and put it round the snow {k}.", "So {he} went outside and told it a story, the one about the {ok} and the moon."],
        ["In the morning there was a note in the snow. It said: \"Thank you.\"", "In the morning the carrot was gone. \"I know nothing about it,\" said {o} the {ok}, with a full mouth."],
        ["When spring came, there was only a puddle and a {thing}. \"It went home,\" said {m}.", "Nobody ever found out who did it, but the snow {k} was smiling."],
    ], thing=["red scarf", "blue hat", "green umbrella", "wooden spoon", "warm blanket"]),
    Plot("rainy snowy foggy windy", [
        ["{n} wanted to make soup, but all {he} had was [a big pot|a pot and a spoon] and some water.", "{n} was hungry, but there was nothing in the kitchen but water and a big pot."],
        ["\"I will make soup from a stone,\" said {n}, and {he} put a stone into the pot.", "{He} put a round stone into the pot and waited."],
        ["{m} the {mk} came in. \"What is that?\" {she} asked. \"Stone soup,\" said {n}. \"It is very good, but it needs a little {mfood}.\"",
         "\"That smells of nothing,\" said {m} the {mk}. \"That is because it still needs some {mfood},\" said {n}."],
        ["So {m} brought some {mfood}. Then {o} the {ok} came with a bag of {ofood}.", "{m} ran home and came back with {mfood}, and {o} the {ok} brought {ofood}."],
        ["They stirred it three times, and soon the whole house smelled [wonderful|very odd].", "It was green, then it was brown, and then it was ready."],
        ["It was the best soup in the world. \"And all from one stone!\" said {o}.", "They ate it all up. Only the stone was left. \"You can have that,\" said {m}."],
    ]),
    Plot("sunny windy", [
        ["\"I am the fastest animal [in the forest|in the world],\" said {n}. \"No, I am,\" said {m} the {mk}.", "{m} the {mk} wanted to have a race. \"To the old oak and back!\" said {m}."],
        ["So they had a race. \"Ready, steady, go!\" shouted {o} the {ok}.", "{o} the {ok} blew a whistle, and off they went."],
        ["{n} ran as fast as {he} could. But then {he} saw some {food} and stopped for just one bite.", "{n} was in front. But the sun was warm, and the grass was soft, and {he} sat down for just one minute."],
        ["{m} ran past {him}, but {she} was looking back, and so {she} fell over a [root|log|sleeping snail].", "{m} would have won, but {she} met a butterfly that was going the other way."],
        ["In the end a small snail won the race. It had not even known that there was one.", "They came back at the same time, side by side. \"You both won,\" said {o}. \"You both lost,\" said a snail."],
        ["The prize was a cake, and they cut it into [three|four] pieces.", "\"It does not matter who is first,\" said {n}, \"so long as there is cake.\""],
    ]),
    Plot("night", [
        ["{n} was in bed when {he} heard a strange noise. [Bump! Bump! Bump!|Crunch! Crunch! Crunch!|Tap! Tap! Tap!]", "In the middle of the night there was a noise outside. [Scratch! Scratch!|Bump! Bump!]"],
        ["\"It is only the wind,\" said {n}. But the wind does not wear shoes.", "\"Who is there?\" asked {n}. Nobody said anything, and that was even worse."],
        ["{He} took {his} [brass lantern|wooden spoon|biggest pillow] and went to look.", "{He} counted to ten. Then {he} counted to ten again. Then {he} opened the door."],
        ["Behind the [door|shed|tree] stood {m} the {mk} in a [nightshirt|big hat|pair of boots].", "There was a dark shape {place2}. It was {m} the {mk}!"],
        ["\"What are you doing here?\" asked {n}. \"I [am dancing|could not sleep|am learning to dance],\" said {m}. \"Do you want to [join in|dance too]?\"",
         "\"I am sorry,\" said {m}. \"I was hungry, and I smelled your {food}.\" {n} laughed, and they sat down to eat."],
        ["They danced until the stars went to bed.", "\"Next time,\" said {n}, \"please knock.\" \"But I did,\" said {m}. \"I knocked three times.\""],
    ]),
    Plot("sunny rainy snowy windy", [
        ["It was {n}'s birthday, but nobody said a word about it.", "{n} was very happy, because it was {his} birthday."],
        ["{He} met {m} the {mk}. \"Do you know what day it is?\" asked {n}. \"[Tuesday|Washing day],\" said {m}, and {she} ran away.",
         "{m} the {mk} was carrying a big box. \"What is in the box?\" asked {n}. \"[Nothing|Potatoes|Onions],\" said {m}, and {she} ran away."],
        ["{He} met {o} the {ok}, but {o} was [in a hurry|covered in flour] and did not stop.", "\"Good morning, {o},\" {he} said to the {ok}. But {o} only [coughed|looked at the sky]."],
        ["{n} walked home slowly. \"They have all forgotten,\" {he} thought, and a tear ran down {his} nose.", "So {n} went home, sad and alone. It was very dark in the house."],
        ["{He} opened the door. \"Surprise!\" shouted {m} and {o}. There was a cake as big as a [wheel|table].", "\"Happy birthday!\" shouted all {his} friends, and {m} fell out of the cupboard."],
        ["\"I never forget a cake,\" said {m}.", "{n} made a wish and blew out the candles. {He} did not tell anyone, but I think {he} wished for another cake."],
    ]),
    Plot("sunny windy", [
        ["{n} wanted to learn how to {skill}.", "All the others could {skill}, but {n} could not."],
        ["The first time {he} tried, {he} fell on {his} nose. The second time {he} fell on {his} tail.", "{He} tried once, and {he} tried twice, and each time it went wrong."],
        ["\"I will never learn it,\" said {n}, and {he} sat down on a stone.", "{He} wanted to give up. \"It is too hard for a {k},\" {he} said."],
        ["\"I fell a hundred times,\" said {m} the {mk}. \"The trick is to get up a hundred and one times.\"", "\"Try it again,\" said {m} the {mk}, \"but this time do not close your eyes.\""],
        ["So {n} tried again. And again. And then, all at once, {he} could do it!", "{n} took a deep breath and tried once more. It worked! \"Look at me!\" {he} shouted."],
        ["{He} was so proud that {he} forgot to stop.", "\"I knew it,\" said {m}. \"Now teach me how to [whistle|cook|fly].\""],
    ], skill=["swim", "whistle", "skate", "dance", "ride a bicycle", "stand on one leg", "juggle"]),
    Plot("sunny rainy", [
        ["{n} found a small seed and put it into the ground.", "{m} the {mk} gave {n} a seed. \"Put it into the ground and wait,\" said {m}."],
        ["{He} waited for one minute. Nothing happened. {He} waited for two minutes.", "Every morning {he} went to look, and every morning there was nothing to see."],
        ["\"Maybe it is asleep,\" said {m} the {mk}. So they sang to it, but not too loudly.", "\"Maybe it is lonely,\" thought {n}, and {he} read it a story. {m} the {mk} listened too."],
        ["Then the rain came, and after the rain came the sun. One day there was a tiny green leaf.", "One morning a little green nose looked out of the ground. \"It is awake!\" shouted {n}."],
        ["It grew and it grew until it was a {plant} as big as a [house|cow|cart].", "By the end of the summer it was the biggest {plant} in the land."],
        ["There was enough for everybody, and {n} kept one seed for the next year.", "\"What did you do to it?\" asked {o} the {ok}. \"I waited,\" said {n}. \"It was very hard work.\""],
    ], plant=["pumpkin", "cabbage", "turnip", "melon"]),
    Plot("foggy rainy windy snowy", [
        ["{n} opened the door, and there sat a very small duckling. \"I cannot find my mother,\" it said.", "{n} heard somebody crying. It was a very small duckling, and it was lost."],
        ["\"What does she look like?\" asked {n}. \"Like a mother,\" said the duckling.", "\"Do not cry,\" said {n}. \"I will help you. I am good at finding things.\""],
        ["They asked {m} the {mk}. \"Is this your mother?\" asked {n}. \"No,\" said the duckling. \"Her nose is too long.\"",
         "First they found {m} the {mk}. \"Are you my mother?\" asked the duckling. \"I do not think so,\" said {m}, \"but I will come with you.\""],
        ["They walked {place2}, and they looked {place3}. The duckling grew tired, so {n} carried it.", "They walked and walked. \"Are we there yet?\" asked the duckling. It asked it forty times."],
        ["Then {m} heard something. \"Quack!\" It was the mother duck, and she was very happy.", "At last they came to the pond. \"Quack!\" said the mother duck, and she hugged all three of them."],
        ["\"Thank you,\" said the mother duck. \"He does this every day.\"", "\"Good night, {n},\" said the duckling. \"You would be a good mother too.\""],
    ]),
    Plot("sunny rainy windy snowy foggy", [
        ["{n} had the hiccups. Hic! {He} could not eat. Hic! {He} could not sing.", "\"Hic!\" said {n}. \"Hic!\" {He} had the hiccups, and they did not stop."],
        ["\"[Drink some water|Hold your breath|Count to ten],\" said {m} the {mk}. {n} tried it. Hic!", "{m} the {mk} told {him} to drink from the wrong side of the cup. {n} got very wet. Hic!"],
        ["\"[Stand on your head|Jump three times|Think of a {ok} in a hat],\" said {o} the {ok}. {n} did. Hic!", "{o} the {ok} told {him} to stand on one leg and sing. It sounded awful. Hic!"],
        ["Then {m} had an idea. {She} hid behind a tree and shouted, \"Boo!\" {n} jumped as high as the [roof|moon].", "Then {o} told the joke about the snail and the postman, and {n} laughed until {he} fell over."],
        ["Everybody waited. It was very quiet. The hiccups were gone!", "They waited one minute. They waited two. Nothing! \"They are gone!\" said {n}."],
        ["\"You see?\" said {m}. \"It is easy. Hic!\"", "\"Hic!\" said {m}. And so it began again."],
    ]),
    Plot("sunny rainy windy snowy", [
        ["The postman brought a letter for {n}. {He} had never had a letter before.", "There was a letter under the door. {n} held it up to the light and smelled it."],
        ["{He} could not read it, because it was upside down. So {he} stood on {his} head.", "{He} put on {his} glasses, but there was jam on them, so {he} licked them first."],
        ["It said: \"Dear {n}, please come to tea. Your friend, {m}.\"", "\"Please come to my house today,\" it said. \"I have something to show you. From {m}.\""],
        ["So {n} put on {his} best hat and went to see {m} the {mk}, who lived in {mhome}.", "{n} took some {food} as a present and walked to {mhome}, where {m} the {mk} lived."],
        ["{m} had made {treat}, and the table was full of flowers.", "\"Look!\" said {m}. On the table was a picture of {n}. It had [five legs|three ears|a very big nose], but it was beautiful."],
        ["\"Why did you write a letter?\" asked {n}. \"You live next door.\" \"Because letters are nice,\" said {m}.", "The next day {n} wrote a letter too. It said: \"Thank you. Hic. Sorry, that was the soup.\""],
    ]),
    Plot("rainy foggy snowy windy", [
        ["{m} the {mk} was in a very bad mood. \"Go away,\" {she} said to the [sky|door|mirror].", "Nobody liked to visit {m} the {mk}, because {she} was always grumpy."],
        ["\"Good morning!\" said {n}. \"What is good about it?\" asked {m}.", "{n} knocked at the door. \"I am not at home,\" said {m}."],
        ["{n} gave {her} a flower. {m} did not smile. {n} told {her} a joke. {m} did not smile.", "{n} brought {her} some {food}. \"I only like {mfood},\" said {m}."],
        ["Then {n} slipped on the stairs and sat down in a bucket.", "Then {n} wanted to bow, but {he} fell into the [flour|washing|rain barrel]."],
        ["It was very quiet for a moment. Then {m} began to laugh, and {she} laughed until {hers} tummy hurt.", "{m} made a funny little sound. It was a laugh. It had not been used for a long time."],
        ["\"Come in,\" said {m}. \"You need a towel and some tea.\"", "\"Will you come again tomorrow?\" asked {m}. \"And bring the bucket?\""],
    ]),
]


class Dice:
    """Random choices that use only `random.random`, whose sequence for a seed is stable across Python versions."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def pick(self, items):
        return items[int(self.random() * len(items))]

    def chance(self, probability):
        return self.random() < probability


def expand(template, slots, dice):
    """Chooses among the alternatives, then fills in the slots, until the values contain no more of either."""
    while "[" in template or "{" in template:
        template = re.sub(r"\[([^\[\]]*)\]", lambda found: dice.pick(found.group(1).split("|")), template)
        template = re.sub(r"\{(\w+)\}", lambda found: fill(found.group(1), slots), template)
    return template


def fill(name, slots):
    if name in slots:
        return slots[name]
    value = slots[name[0].lower() + name[1:]]
    return value[0].upper() + value[1:]


def polish(text):
    """Capitalises sentence starts, replaces `a` by `an` before vowels, removes double spaces."""
    text = re.sub(r" +", " ", text).replace(" ,", ",").strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    return re.sub(r"(^\"?|[.!?] \"?)([a-z])", lambda found: found.group(1) + found.group(2).upper(), text)


def cast(dice, plot):
    """Every slot of one story: three different animals with different names, three places, and the slots of the plot."""
    names, kinds, places = [], [], []
    for chosen, items in ((names, HE + SHE), (kinds, list(KINDS)), (places, PLACES)):
        while len(chosen) < 3:
            item = dice.pick(items)
            if item not in chosen:
                chosen.append(item)
    (n, m, o), (k, mk, ok) = names, kinds
    weather, adjective, thing = dice.pick(plot.weather), dice.pick(KINDS[k][2].split(", ")), dice.pick(THINGS)
    slots = {
        "n": n, "k": k, "home": KINDS[k][0], "food": KINDS[k][1], "adj": adjective, "adj1": adjective,
        "m": m, "mk": mk, "mhome": KINDS[mk][0], "mfood": KINDS[mk][1], "o": o, "ok": ok, "ofood": KINDS[ok][1],
        "place": places[0], "place2": places[1], "place3": places[2], "thing": thing, "thing2": dice.pick(THINGS),
        "treat": dice.pick(TREATS), "treat1": dice.pick(TREATS), "when": weather_time(weather), "weather": dice.pick(WEATHER[weather]),
    }
    male = n in HE
    slots |= {"he": "he", "him": "him", "his": "his"} if male else {"he": "she", "him": "her", "his": "her"}
    male = m in HE
    slots |= {"she": "he", "her": "him", "hers": "his"} if male else {"she": "she", "her": "her", "hers": "her"}
    for slot, values in plot.slots.items():
        slots[slot] = dice.pick(values)
    return slots


def weather_time(weather):
    return "[" + weather + " |]" + WHEN[weather] if weather not in ("night", "foggy") else WHEN[weather]


def story(dice):
    """A story as one line of text."""
    plot = dice.pick(PLOTS)
    slots = cast(dice, plot)
    parts = [dice.pick(OPENINGS)]
    if dice.chance(0.5):
        parts.append(dice.pick(TRAITS))
    parts.append(dice.pick(SETTINGS_AT_NIGHT if plot.weather == ["night"] else SETTINGS))
    parts += [dice.pick(step) for step in plot.steps]
    parts.append(dice.pick(CLOSINGS))
    if dice.chance(0.2):
        parts.append("The end.")
    return polish(" ".join(expand(part, slots, dice) for part in parts))


if __name__ == "__main__":
    sample = Dice(1)
    for _ in range(10):
        print(story(sample), end="\n\n")
