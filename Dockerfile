# Runs as any OS user, also one without a name, and needs root for nothing. It writes to /data alone.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN sh docker/install.sh /opt/hippocampus

FROM python:3.13-slim
COPY --from=build /opt/hippocampus /opt/hippocampus
# Any user may make the folder of a memory here; the memory itself is closed to others.
RUN install -d -m 1777 /data
ENV PATH=/opt/hippocampus/bin:$PATH HIPPOCAMPUS_HOME=/data/memory
VOLUME /data
WORKDIR /data
USER 10001:10001
EXPOSE 8420
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s CMD ["python3", "-I", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8420, timeout=9); c.request('GET', '/health/ready'); exit(c.getresponse().status != 200)"]
ENTRYPOINT ["hippocampus"]
CMD ["serve", "--host", "0.0.0.0"]
