use std::net::TcpListener;

use super::*;

/// Asks a server that reads the question and then calls `answer`. Returns the outcome and the question.
fn asked(
    time: Duration,
    answer: impl FnOnce(TcpStream) + Send + 'static,
) -> (Result<String, NetError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = [0; 12];
        // Nothing is sent if the time limit was exceeded before.
        let _ = stream.read_exact(&mut question);
        answer(stream);
        String::from_utf8_lossy(&question).into_owned()
    });
    let outcome = converse(&address, "listcs\nquit\n", time);
    (outcome, server.join().unwrap())
}

#[test]
fn answer_is_read_until_the_connection_ends() {
    let (answer, question) = asked(Duration::from_secs(60), |mut stream| {
        for part in ["200-", "ICECC \u{1b}[2J\n", "200 done\n"] {
            stream.write_all(part.as_bytes()).unwrap();
        }
        stream.write_all(b"\xff").unwrap();
    });
    assert_eq!(question, "listcs\nquit\n");
    assert_eq!(answer.as_deref(), Ok("200-ICECC \u{1b}[2J\n200 done\n\u{fffd}"));
}

#[test]
fn time_is_limited_for_the_complete_answer() {
    let short = Duration::from_millis(300);
    // The server stops when the client has closed the connection, and every read of the client is answered in time.
    let (answer, _) = asked(short, |mut stream| {
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(matches!(answer, Err(NetError::Timeout(_))), "{answer:?}");
    let (answer, _) = asked(short, |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(matches!(answer, Err(NetError::Timeout(_))), "{answer:?}");
}

#[test]
fn length_of_an_answer_is_limited() {
    let (answer, _) =
        asked(Duration::from_secs(60), |mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    assert_eq!(answer, Err(NetError::Unreachable("the answer is longer than 1 MiB".to_owned())));
}

#[test]
fn unreachable_servers_are_reported() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for address in
        [format!("127.0.0.1:{port}"), "127.0.0.1".to_owned(), "no such name:1".to_owned(), String::new()]
    {
        let answer = converse(&address, "", Duration::from_secs(60));
        assert!(matches!(answer, Err(NetError::Unreachable(_))), "{address}: {answer:?}");
    }
}
