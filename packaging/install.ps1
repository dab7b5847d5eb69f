# Installs gpubuild for this user: verifies the signature and sha256 of a first copy, with which `gpubuild install` installs the release.
# GPUBUILD_FILES: address of the files; GPUBUILD_RELEASE: for `gpubuild install --manifest`; GPUBUILD_BIN: folder for the commands.
$ErrorActionPreference = 'Stop'
function Default($value, $other) { if ($value) { $value } else { $other } }
function Fail($text, $hint) { [Console]::Error.WriteLine("error: $text`nhint: $hint"); throw $text }

function Fetch($name) {
  try { Invoke-WebRequest -UseBasicParsing -Uri "$files/$name" -OutFile $name }
  catch { Fail "failed to download $files/${name}: $_" 'check the network and run the script again; nothing was installed' }
}

function Test-Signed($name) { # Windows has no Ed25519 of its own; Git for Windows brings openssl.
  if (Get-Command minisign -ErrorAction SilentlyContinue) { minisign -V -q -P $key -m $name; return $LASTEXITCODE -eq 0 }
  $openssl = @('openssl', "$env:ProgramFiles\Git\usr\bin\openssl.exe") | Where-Object { Get-Command $_ -ErrorAction SilentlyContinue } | Select-Object -First 1
  if (-not $openssl) { Fail 'neither minisign nor openssl is installed' 'install one of them to verify the signature: winget install jedisct1.minisign' }
  [byte[]] $head = 0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00
  [IO.File]::WriteAllBytes("$work\key.der", $head + [Convert]::FromBase64String($key)[10..41])
  $line = (Get-Content "$name.minisig")[1]
  [IO.File]::WriteAllBytes("$work\signature", [Convert]::FromBase64String($line)[10..73])
  & $openssl dgst -blake2b512 -binary -out digest $name
  & $openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in digest -sigfile signature | Out-Null
  return $LASTEXITCODE -eq 0
}

function Write-Command($name, $folder) { # `current` is a file with the folder of the version: a link would need a privilege.
  $text = "@echo off`r`nsetlocal`r`nset /p version=<`"$folder\current`"`r`n`"$folder\%version:/=\%\bin\$name.exe`" %*`r`n"
  Set-Content -NoNewline -Encoding ascii -Path "$bin\$name.cmd" -Value $text
}

function Main { # A script that was cut while it was downloaded does nothing.
  $key = Default $env:GPUBUILD_KEY '@KEY@'
  $files = Default $env:GPUBUILD_FILES 'https://github.com/gpubuild/gpubuild/releases/latest/download'
  $release = Default $env:GPUBUILD_RELEASE 'oci://ghcr.io/gpubuild/gpubuild:latest'
  $bin = Default $env:GPUBUILD_BIN "$env:LOCALAPPDATA\Programs\gpubuild\bin"
  if (-not $key.StartsWith('RW')) { Fail 'this copy of the script has no key' 'use the script of a release, or set GPUBUILD_KEY' }
  $work = Join-Path ([IO.Path]::GetTempPath()) ([IO.Path]::GetRandomFileName())
  New-Item -ItemType Directory $work | Out-Null
  Push-Location $work
  try {
    $archive = 'gpubuild-x86_64-pc-windows-msvc.tar.gz'
    Fetch SHA256SUMS; Fetch SHA256SUMS.minisig
    if (-not (Test-Signed SHA256SUMS)) { Fail 'the signature of SHA256SUMS is not valid' 'run the script again; if the error remains, report it' }
    $line = Get-Content SHA256SUMS | Where-Object { $_ -match "^[0-9a-f]{64}  $([regex]::Escape($archive))$" }
    if (-not $line) { Fail "the release has no $archive" 'install it from source: cargo install gpubuild' }
    Fetch $archive
    if ((Get-FileHash $archive -Algorithm SHA256).Hash -ne $line.Substring(0, 64)) { Fail "the sha256 of $archive is wrong" 'run the script again; nothing was installed' }
    tar -xzf $archive
    $program = & .\bin\gpubuild.exe install --manifest $release --key $key --name gpubuild --variant cpu
    if ($LASTEXITCODE -ne 0) { Fail '`gpubuild install` failed' 'read the messages above' }
    New-Item -ItemType Directory -Force $bin | Out-Null
    $folder = Split-Path (Split-Path (Split-Path (Split-Path $program))) # FOLDER\versions\NAME\bin\gpubuild.exe
    'gpubuild', 'cargo-gpubuild' | ForEach-Object { Write-Command $_ $folder }
    if (($env:PATH -split ';') -notcontains $bin) { [Console]::Error.WriteLine("hint: add $bin to PATH") }
  } finally { Pop-Location; Remove-Item -Recurse -Force $work }
}
Main
