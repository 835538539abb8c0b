#!/bin/sh
# Joins the machine to a cluster of k3s as an agent. Its image has k3s at /usr/local/bin/k3s, of the
# version of the servers or one before. /etc/nstance/leave.d/50-k3s undoes it.
set -eu
umask 077
[ -x /usr/local/bin/k3s ] || {
	echo "/usr/local/bin/k3s does not exist: the image must have k3s" >&2
	exit 1
}

mkdir -p /etc/rancher/k3s
cat >/etc/rancher/k3s/config.yaml <<'END_OF_CONFIGURATION'
server: "https://192.0.2.10:6443"
token: "K10sha256:0123456789abcdef::abcdef.0123456789abcdef"
node-label:
  - "a=b"
  - "nstance.dev/instance-id=wrk-1"
END_OF_CONFIGURATION

umask 022
cat >/etc/systemd/system/k3s-agent.service <<'END_OF_UNIT'
[Unit]
Description=Agent of k3s
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
EnvironmentFile=-/etc/systemd/system/k3s-agent.service.env
ExecStart=/usr/local/bin/k3s agent
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s

[Install]
WantedBy=multi-user.target
END_OF_UNIT

systemctl daemon-reload
systemctl enable k3s-agent.service
# It has started when the kubelet runs; a token that is refused shows after ten minutes.
timeout 600 systemctl restart k3s-agent.service
