# ckpt without Go on the host:
#   docker build -t ckpt .
#   docker run --rm --shm-size 1g ckpt launch bt.S.4
# The store is /work/ckpt-store; -v "$PWD:/work" keeps it on the host.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
# .git is copied too: ckpt --version prints the commit.
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/ckpt ./cmd/ckpt

FROM debian:stable-slim
RUN useradd --uid 10001 --create-home ckpt && mkdir /work && chown ckpt:ckpt /work
COPY --from=build /out/ckpt /usr/local/bin/ckpt
USER ckpt
WORKDIR /work
VOLUME /work
ENTRYPOINT ["ckpt"]
CMD ["--help"]
