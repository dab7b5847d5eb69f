FROM python:3.12-slim
RUN pip install --no-cache-dir flask==3.0.3 && python -c "import flask"
COPY . /app
USER 65534
CMD ["flask", "--app", "/app/main", "run"]
