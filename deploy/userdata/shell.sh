#!/bin/sh
# Makes a machine a member of its group: brings the agent what it needs and starts it.
# This is a template: the server fills in what stands in double braces. It works on
# every cloud, whether its user data run at the first boot or at each.
#
# The image needs systemd. The agent's program is fetched from the URL in the variable
# agent_url, unless the image has it.
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
