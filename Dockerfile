# The command line with all packages of the lock:
#
#   docker build -t re3_jax .
#   docker run --rm --user "$(id -u)" -v "$PWD:/work" re3_jax train --env doorkey_6x6
#
# For NVIDIA GPUs, build with `--build-arg LOCK=requirements-compile-cuda.txt` and run with
# `--gpus all`. Atari needs `--build-arg ATARI=requirements-atari.txt`.
FROM python:3.11-slim

# OpenGL without a screen, for pixels of DeepMind Control.
RUN apt-get update \
  && apt-get install -y --no-install-recommends libegl1 libegl-mesa0 libgl1-mesa-dri \
  && rm -rf /var/lib/apt/lists/*

ARG LOCK=requirements.txt
ARG ATARI=
WORKDIR /source
COPY requirements*.txt ./
RUN python -m pip install --no-cache-dir --no-deps -r "$LOCK" ${ATARI:+-r "$ATARI"}

COPY pyproject.toml README.md LICENSE ./
COPY re3_jax ./re3_jax
RUN python -m pip install --no-cache-dir --no-deps .

# Compiled programs and settings of libraries go to a home that every user may write.
ENV HOME=/tmp
WORKDIR /work
ENTRYPOINT ["re3-jax"]
CMD ["--help"]
