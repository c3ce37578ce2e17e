#!/usr/bin/env bash
# Starts and stops a Kubernetes node of its own on this machine: a control plane, containerd, kubelet, kube-proxy and
# CoreDNS, in one network namespace without a route out. Needs root.
#
#   node.sh up               starts it, where it does not run, after removing what a broken start left; imports the images
#   node.sh down             stops it and removes everything of it
#   node.sh run COMMAND...   runs a command in its network namespace, with KUBECONFIG
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

# One node at a time: names of cgroups and interfaces are the machine's.
readonly state=/var/lib/hawsepipe-e2e netns=hawsepipe-e2e
readonly bin=${E2E_BIN:-$here/../../../.cache/e2e/bin}
readonly address=10.99.0.1 api_port=16443 services=10.96.0.0/16 api_service=10.96.0.1 dns_service=10.96.0.10 pods=10.244.0.0/24
readonly socket=$state/containerd/containerd.sock
readonly archives=${E2E_IMAGES:-$here/../../../.cache/e2e/images}
export PATH=$bin:$PATH KUBECONFIG=$state/kubeconfig

say() { printf '==> %s\n' "$*"; }

inside() { nsenter --net="/run/netns/$netns" -- "$@"; }

# Waits until the command succeeds, for at most 180 s.
until_done() {
    local what=$1 tries
    shift
    for (( tries = 0; tries < 900; tries++ )); do
        if "$@" >/dev/null 2>&1; then
            return
        fi
        sleep 0.2
    done
    echo "$what did not come up in 180 s; logs are in $state" >&2
    exit 1
}

# Says every program that is missing and how to get it, and ends.
require_programs() {
    local program package
    local -a packages=()
    (( EUID == 0 )) || { echo "a node needs root: run it as root, for example with sudo" >&2; exit 1; }
    while read -r program package; do
        [[ -x $program ]] || command -v "$program" >/dev/null || packages+=("$package")
    done <<'PROGRAMS'
containerd containerd
ctr containerd
runc runc
conntrack conntrack
iptables iptables
ip iproute2
nsenter util-linux
pgrep procps
openssl openssl
/usr/lib/cni/ptp containernetworking-plugins
PROGRAMS
    if (( ${#packages[@]} > 0 )); then
        mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
        echo "Missing: ${packages[*]}. Install with: apt-get install --no-install-recommends ${packages[*]}" >&2
        exit 1
    fi
    for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
        [[ -x $bin/$program ]] || { echo "$bin/$program is missing: run .ci/setup.sh e2e" >&2; exit 1; }
    done
}

# A namespace with an address for the node and a default route, without which addresses of Services have no way; it ends
# at the other end of a pair of interfaces.
make_network() {
    ip netns add "$netns"
    inside ip link set lo up
    inside ip link add node0 type dummy 2>/dev/null || inside ip link add node0 type bridge
    inside ip address add "$address/32" dev node0
    inside ip link set node0 up
    inside ip link add out0 type veth peer name out1
    inside ip link set out0 up
    inside ip link set out1 up
    inside ip route add default dev out0
    inside sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1
}

# A certificate NAME for the subject, for the alternative names.
certificate() {
    local name=$1 subject=$2 names=${3:-DNS:$1}
    openssl req -newkey rsa:2048 -nodes -keyout "pki/$name.key" -out "pki/$name.csr" -subj "$subject" 2>/dev/null
    openssl x509 -req -in "pki/$name.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 2 -out "pki/$name.crt" \
        -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=%s\n' "$names") 2>/dev/null
}

make_certificates() {
    local api=DNS:localhost,IP:127.0.0.1,IP:$api_service,IP:$address name
    for name in kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local; do
        api+=,DNS:$name
    done
    mkdir -p pki
    openssl req -x509 -newkey rsa:2048 -nodes -keyout pki/ca.key -out pki/ca.crt -days 2 -subj /CN=e2e 2>/dev/null
    certificate apiserver /CN=kube-apiserver "$api"
    certificate admin /O=system:masters/CN=admin
    certificate controller-manager /CN=system:kube-controller-manager
    certificate scheduler /CN=system:kube-scheduler
    certificate proxy /CN=system:kube-proxy
    certificate front /CN=front-proxy
    certificate node /O=system:nodes/CN=system:node:node1 "DNS:node1,IP:$address,IP:127.0.0.1"
    openssl genrsa -out pki/accounts.key 2048 2>/dev/null
}

kubeconfig() {
    cat <<EOF
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://$address:$api_port", certificate-authority: $state/pki/ca.crt}}]
users: [{name: user, user: {client-certificate: $state/pki/$1.crt, client-key: $state/pki/$1.key}}]
contexts: [{name: e2e, context: {cluster: e2e, user: user}}]
current-context: e2e
EOF
}

make_configuration() {
    local name
    for name in controller-manager scheduler proxy node; do
        kubeconfig "$name" >"$name.kubeconfig"
    done
    kubeconfig admin >kubeconfig
    mkdir -p containerd cni
    for name in containerd.toml cni.conflist kubelet.yaml; do
        sed -e "s|@STATE@|$state|g" -e "s|@ADDRESS@|$address|g" -e "s|@PODS@|$pods|g" -e "s|@DNS@|$dns_service|g" \
            "$here/$name" >"$name"
    done
    mv cni.conflist cni/10-pods.conflist
}

# The cgroup below which all pods are, in the one hierarchy or in each of several.
make_cgroup() {
    local hierarchy
    if [[ -f /sys/fs/cgroup/cgroup.controllers ]]; then
        mkdir -p /sys/fs/cgroup/hawsepipe-e2e
        return
    fi
    for hierarchy in /sys/fs/cgroup/*/; do
        mkdir -p "$hierarchy/hawsepipe-e2e"
    done
}

# Starts a program of the node in the background; its log and its process id are files of its name.
start() {
    local name=$1
    shift
    setsid nohup nsenter --net="/run/netns/$netns" -- "$@" >"$name.log" 2>&1 &
    echo $! >"$name.pid"
}

start_control_plane() {
    local etcd=http://127.0.0.1:12379 peer=http://127.0.0.1:12380
    start etcd etcd --data-dir=etcd --listen-client-urls=$etcd --advertise-client-urls=$etcd --listen-peer-urls=$peer \
        --initial-advertise-peer-urls=$peer --initial-cluster=default=$peer --unsafe-no-fsync
    start apiserver kube-apiserver --etcd-servers=$etcd --bind-address=$address --advertise-address=$address \
        --secure-port=$api_port --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key \
        --client-ca-file=pki/ca.crt --cert-dir=certs --service-account-key-file=pki/accounts.key \
        --service-account-signing-key-file=pki/accounts.key \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --requestheader-client-ca-file=pki/ca.crt --requestheader-allowed-names=front-proxy \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- --proxy-client-cert-file=pki/front.crt \
        --proxy-client-key-file=pki/front.key --kubelet-preferred-address-types=InternalIP \
        --kubelet-client-certificate=pki/admin.crt --kubelet-client-key=pki/admin.key --authorization-mode=Node,RBAC \
        --service-cluster-ip-range=$services --allow-privileged=true
    until_done kube-apiserver inside kubectl get --raw /readyz
    start controller-manager kube-controller-manager --kubeconfig=controller-manager.kubeconfig --leader-elect=false \
        --authentication-kubeconfig=controller-manager.kubeconfig \
        --authorization-kubeconfig=controller-manager.kubeconfig --bind-address=127.0.0.1 --cert-dir=certs \
        --service-account-private-key-file=pki/accounts.key --root-ca-file=pki/ca.crt \
        --use-service-account-credentials=true --cluster-signing-cert-file=pki/ca.crt \
        --cluster-signing-key-file=pki/ca.key
    start scheduler kube-scheduler --kubeconfig=scheduler.kubeconfig --leader-elect=false --bind-address=127.0.0.1 \
        --authentication-kubeconfig=scheduler.kubeconfig --authorization-kubeconfig=scheduler.kubeconfig \
        --cert-dir=certs
}

# Imports the images; that of the project under a second name, to which it can be upgraded.
import_images() {
    local archive name=docker.io/library/hawsepipe
    for archive in "$archives"/*.tar; do
        ctr -a "$socket" -n k8s.io images import "$archive" >/dev/null
    done
    ctr -a "$socket" -n k8s.io images tag --force $name:e2e $name:e2e-next >/dev/null
}

start_node() {
    start containerd containerd -c containerd.toml
    until_done containerd ctr -a "$socket" version
    import_images
    start kubelet kubelet --config=kubelet.yaml --kubeconfig=node.kubeconfig --root-dir="$state/kubelet" \
        --hostname-override=node1 --node-ip=$address --cert-dir="$state/kubelet/pki"
    inside kubectl create clusterrolebinding kube-proxy --clusterrole=system:node-proxier --user=system:kube-proxy >/dev/null
    start proxy kube-proxy --kubeconfig=proxy.kubeconfig --proxy-mode=iptables --cluster-cidr=$pods \
        --hostname-override=node1 --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249 \
        --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
    until_done "the node" inside kubectl get node node1
    inside kubectl wait node/node1 --for=condition=Ready --timeout=180s >/dev/null
    sed "s|@DNS@|$dns_service|g" "$here/coredns.yaml" | inside kubectl apply -f - >/dev/null
    inside kubectl rollout status deployment/coredns -n kube-system --timeout=180s >/dev/null
}

runs() { [[ -s $state/ready ]] && kill -0 "$(<"$state/kubelet.pid")" 2>/dev/null; }

up() {
    local started=$SECONDS
    require_programs
    if runs; then
        import_images
        say "the node runs already"
        return
    fi
    down
    mkdir -p "$state"
    cd "$state"
    make_network
    make_cgroup
    make_certificates
    make_configuration
    start_control_plane
    start_node
    date >"$state/ready"
    say "the node runs after $(( SECONDS - started )) s: $(inside kubectl version -o json |
        sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' | tail -1); \`$0 run kubectl get pods -A\`"
}

# Ends the program that was started under the name, and waits until it is gone. Nothing that it would save is wanted.
stop() {
    local pid
    [[ -s $state/$1.pid ]] || return 0
    pid=$(<"$state/$1.pid")
    rm -f "$state/$1.pid"
    # After a restart of the machine, another program may have the number.
    [[ $(readlink -f "/proc/$pid/exe" 2>/dev/null) == "$(readlink -f "$(command -v "$2")")" ]] || return 0
    while kill -9 "$pid" 2>/dev/null; do
        sleep 0.1
    done
}

# The shims, which are no children of containerd, and then the processes of the containers. containerd may be gone already.
stop_containers() {
    local pid its_socket
    for pid in $(pgrep -f "^/usr/bin/containerd-shim.* -address $socket" || true); do
        kill -9 "$pid" 2>/dev/null || true
    done
    find /sys/fs/cgroup -path '*/hawsepipe-e2e/*' -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u |
        while read -r pid; do kill -9 "$pid" 2>/dev/null; done || true
    # Sockets of shims are beside those of the machine's containerd; each bundle has the address of its own.
    for its_socket in $(grep -ho '/run/containerd/s/[0-9a-f]*' "$state"/containerd/state/*.task/*/*/address 2>/dev/null | sort -u); do
        rm -f "$its_socket"
    done
}

# The network namespaces of pods, which the bundles of their containers name, and the node's own.
remove_network() {
    local name
    for name in $(grep -ho 'netns/cni-[-0-9a-f]*' "$state"/containerd/state/*.task/*/*/config.json 2>/dev/null | sort -u); do
        ip netns delete "${name#netns/}" 2>/dev/null || true
    done
    ip netns delete "$netns" 2>/dev/null || true
}

remove_files() {
    local mount
    awk -v root="$state/" 'index($5, root) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r mount; do umount "$mount" 2>/dev/null || umount -l "$mount"; done || true
    find /sys/fs/cgroup -depth -type d -path '*/hawsepipe-e2e/*' -exec rmdir {} + 2>/dev/null || true
    find /sys/fs/cgroup -depth -type d -name hawsepipe-e2e -exec rmdir {} + 2>/dev/null || true
    rm -rf "$state"
}

down() {
    [[ -d $state || -e /run/netns/$netns ]] || return 0
    rm -f "$state/ready"
    stop kubelet kubelet
    stop containerd containerd
    stop_containers
    stop proxy kube-proxy
    stop scheduler kube-scheduler
    stop controller-manager kube-controller-manager
    stop apiserver kube-apiserver
    stop etcd etcd
    remove_network
    remove_files
    say "the node is gone"
}

what=${1:?up, down or run}
shift
case $what in
    up) up ;;
    down) down ;;
    # In its own process, so that whoever ends this ends the command.
    run) exec nsenter --net="/run/netns/$netns" -- "$@" ;;
    *) echo "node.sh: no command $what" >&2 && exit 2 ;;
esac
