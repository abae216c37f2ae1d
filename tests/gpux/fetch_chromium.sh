#!/usr/bin/env bash
# Puts Chromium's headless shell into .venv/chromium, without root: tests/gpux/fetch_chromium.sh
#
# About 60 MB of Debian's packages. `.venv/chromium/run` is the program.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$PWD/.venv/chromium
if [[ -x $target/run ]]; then exit 0; fi

packages=(chromium-headless-shell chromium-common)
source tests/debian_packages.sh
libraries=(libdouble-conversion3 libogg0 libflac12 libharfbuzz-subset0 libminizip1 libopenh264-7 libopenjp2-7 libopus0 libasyncns0
  libmp3lame0 libmpg123-0 libvorbis0a libvorbisenc2 libsndfile1 libpulse0 libxnvctrl0 libnss3 libnspr4 libatomic1 libsnappy1v5
  libwoff1 libdav1d6 libwebp7 libwebpdemux2 libwebpmux3 libjsoncpp25 libxslt1.1 liblcms2-2 libasound2 libdbus-1-3 libexpat1
  libfontconfig1 libfreetype6 libglib2.0-0 libjpeg62-turbo libpng16-16 libharfbuzz0b libgraphite2-3 libbrotli1 libxml2 libicu72
  libatk1.0-0 libatk-bridge2.0-0 libatspi2.0-0 libxkbcommon0 libgbm1 libdrm2 libwayland-server0 libwayland-client0 libxcb1
  libxcb-randr0 libx11-6 libx11-xcb1 libxau6 libxdmcp6 libxext6 libxfixes3 libxi6 libxcomposite1 libxdamage1 libxrandr2
  libxrender1 libffi8 libpcre2-8-0 libsystemd0 libgcrypt20 libbsd0 libmd0 fonts-dejavu-core)
fetch_packages "$target" "Chromium could not be downloaded: install Debian's package chromium-headless-shell, and link its program as $target/run" \
  "${packages[@]}" $(missing_libraries "${libraries[@]}")

program=$(find "$target" -name 'headless_shell' -o -name 'chromium-headless-shell' -path '*/lib/*' | head -1)
multiarch=$(uname -m)-linux-gnu
cat >"$target/run" <<END
#!/usr/bin/env bash
export LD_LIBRARY_PATH='$target/usr/lib/$multiarch:$target/usr/lib/$multiarch/pulseaudio'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec '$program' "\$@"
END
chmod +x "$target/run"
