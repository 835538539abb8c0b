#!/bin/sh
# Joins the machine to a cluster made with kubeadm. Its image has a container runtime, and kubelet
# and kubeadm of the cluster's version or one before. /etc/nstance/leave.d/50-kubeadm undoes it.
set -eu
umask 077

config=$(mktemp /run/nstance-kubeadm.XXXXXX)
trap 'rm -f "$config"' EXIT
cat >"$config" <<'END_OF_CONFIGURATION'
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: "192.0.2.10:6443"
    caCertHashes: ["sha256:0123456789abcdef"]
    token: "abcdef.0123456789abcdef"
nodeRegistration:
  criSocket: "unix:///run/crio/crio.sock"
  taints: [{"key":"dedicated","value":"gpu","effect":"NoSchedule"},{"key":"cni","effect":"NoExecute"}]
  kubeletExtraArgs:
    - name: node-labels
      value: "a=b,nstance.dev/instance-id=wrk-1"
    - name: cloud-provider
      value: "external"
    - name: node-ip
      value: "192.0.2.20"
END_OF_CONFIGURATION

# The kubelet comes back after a reboot; kubeadm starts it now.
systemctl enable kubelet.service
kubeadm join --config "$config" --ignore-preflight-errors='Swap,SystemVerification'
