# escape=`
FROM mcr.microsoft.com/windows/servercore:ltsc2022
SHELL ["powershell", "-NoLogo", "-Command"]
COPY . C:/src
RUN $env:CXXFLAGS = '/O2'; `
    cmake -S C:\src -B C:\build -G Ninja `
      -DWHISPER_BUILD_TESTS=OFF; `
    cmake --build C:\build
ENTRYPOINT ["C:\\build\\bin\\whisper-server.exe"]
