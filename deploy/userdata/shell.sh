#!/bin/sh
# Makes a machine a member of its group: brings the agent what it needs and starts it.
# This is a template: the server fills in what stands in double braces. It works on
# every cloud, whether its user data run at the first boot or at each.
#
# The image needs systemd. The agent's program is fetched from the URL in the variable
# agent_url, unless the image has it. With the variable joins_clusters the machine is one that
# joins clusters: root runs what the agent hands over for that.
set -eu
umask 077
d=/opt/nstance-agent
mkdir -p $d/identity $d/keys $d/recv

# A machine that was started again keeps the identity that it has.
if [ ! -s $d/identity/identity.crt ]; then
	printf '%s' '{{ .Cluster.CACert }}' >$d/identity/ca.crt
	printf '%s' '{{ .Nonce }}' >$d/identity/nonce.jwt
fi
cat >$d/agent.env <<EOT
NSTANCE_INSTANCE_ID={{ .Instance.ID }}
NSTANCE_SERVER_REGISTRATION_ADDR={{ .Server.RegistrationAddr }}
NSTANCE_SERVER_AGENT_ADDR={{ .Server.AgentAddr }}
NSTANCE_PROVIDER={{ .Provider.Kind }}
EOT
{{- with index .Vars "agent_url" }}
if [ ! -x /usr/local/bin/nstance-agent ]; then
	curl -fsSL --retry 5 --proto '=https' -o /usr/local/bin/nstance-agent.new '{{ . }}'
	chmod 0755 /usr/local/bin/nstance-agent.new
	mv /usr/local/bin/nstance-agent.new /usr/local/bin/nstance-agent
fi
{{- end }}
{{- with index .Vars "joins_clusters" }}
mkdir -p /etc/systemd/system /etc/nstance/leave.d
cat >/etc/systemd/system/nstance-cluster.service <<'EOT'
# Makes the machine join a cluster, and leave it, as the shard asks the agent to. It runs as
# root what the agent hands it: install it only where machines join clusters.
[Unit]
Description=Joins a cluster and leaves it for Nstance
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/local/bin/nstance-agent cluster-unit --requests /opt/nstance-agent/cluster --state /var/lib/nstance-cluster --leave /etc/nstance/leave.d
# What it runs is bounded by itself; what that has started goes on without it.
TimeoutStartSec=infinity
TimeoutStopSec=30s
KillMode=process
# Ended in the middle it starts again to say so.
Restart=on-failure
RestartSec=1s

[Install]
WantedBy=multi-user.target
EOT
chmod 0644 /etc/systemd/system/nstance-cluster.service
cat >/etc/systemd/system/nstance-cluster.path <<'EOT'
# Starts nstance-cluster.service when the agent has left a request, and as long as one is there.
[Unit]
Description=Requests to join a cluster or to leave it

[Path]
PathExistsGlob=/opt/nstance-agent/cluster/*.request

[Install]
WantedBy=multi-user.target
EOT
chmod 0644 /etc/systemd/system/nstance-cluster.path
cat >/etc/nstance/leave.d/50-kubeadm <<'EOT'
#!/bin/sh
# Takes a machine out of the cluster that it joined with kubeadm: what kubeadm join has made is
# removed, with the networks of the Pods. For /etc/nstance/leave.d; it does nothing where
# kubeadm has joined nothing. The Node object is deleted by the operator.
set -eu
command -v kubeadm >/dev/null || exit 0
[ -e /etc/kubernetes/kubelet.conf ] || [ -e /var/lib/kubelet/config.yaml ] || exit 0

kubeadm reset --force
rm -rf /var/lib/cni /var/lib/kubelet/pki
# The directory stays: containerd watches it, and ends when it goes, in the middle of the next join.
if [ -d /etc/cni/net.d ]; then
	find /etc/cni/net.d -mindepth 1 -delete
fi

# The chains of kube-proxy and of networks stay behind; the machine's own rules are left alone.
for family in iptables ip6tables; do
	if command -v "$family-save" >/dev/null && command -v "$family-restore" >/dev/null; then
		"$family-save" | grep -v -e KUBE- -e CNI- -e FLANNEL -e CILIUM -e cali- | "$family-restore" || :
	fi
done
if command -v ipvsadm >/dev/null; then
	ipvsadm --clear || :
fi
for link in cni0 flannel.1 flannel-v6.1 kube-ipvs0 cilium_host cilium_net cilium_vxlan vxlan.calico; do
	ip link delete "$link" 2>/dev/null || :
done
EOT
chmod 0755 /etc/nstance/leave.d/50-kubeadm
cat >/etc/nstance/leave.d/50-k3s <<'EOT'
#!/bin/sh
# Takes a machine out of the cluster that it joined as an agent of k3s: everything that k3s runs
# is stopped, and what it knows of the cluster is removed. The program stays for the next one.
# For /etc/nstance/leave.d; it does nothing where there is no agent of k3s.
set -eu
[ -e /etc/systemd/system/k3s-agent.service ] || exit 0

systemctl disable --now k3s-agent
killall=$(command -v k3s-killall.sh || echo /usr/local/bin/k3s-killall.sh)
if [ -x "$killall" ]; then
	"$killall"
fi
# The file with the environment holds the token.
rm -rf /etc/rancher/node /etc/rancher/k3s /var/lib/rancher/k3s/agent /var/lib/kubelet
rm -f /etc/systemd/system/k3s-agent.service.env
EOT
chmod 0755 /etc/nstance/leave.d/50-k3s
chmod 0755 /etc/nstance /etc/nstance/leave.d
systemctl daemon-reload
# Before the agent, which says what the machine is able to do.
systemctl start nstance-cluster.service
systemctl enable nstance-cluster.service
systemctl enable --now nstance-cluster.path
{{- end }}
if [ ! -e /etc/systemd/system/nstance-agent.service ]; then
	mkdir -p /etc/systemd/system
	cat >/etc/systemd/system/nstance-agent.service <<'EOT'
[Unit]
Description=Nstance agent
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/opt/nstance-agent/agent.env
ExecStart=/usr/local/bin/nstance-agent
# What can't be mended the agent waits out by itself; the rest is worth a retry.
Restart=on-failure
RestartSec=5s
# It needs its own directory and the network, and no privilege.
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ReadWritePaths=/opt/nstance-agent
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
MemoryDenyWriteExecute=yes

[Install]
WantedBy=multi-user.target
EOT
	chmod 0644 /etc/systemd/system/nstance-agent.service
	systemctl daemon-reload
fi
systemctl enable --now nstance-agent
