package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// kubelet writes the kubelet's unit and configuration.
func (r *renderer) kubelet(config *yaml.Node) {
	ordered(config)
	text, err := yamlText(config)
	if err != nil {
		r.problem("kubernetes.kubeletConfig", "%v", err)
	}
	r.slot(KubeletConfig, 0o644, text)
	arguments := []string{
		"--config=" + KubeletConfig,
		"--bootstrap-kubeconfig=" + BootstrapKubeconfig,
		"--kubeconfig=" + Kubeconfig,
		"--hostname-override=" + r.a.GetNodeName(),
	}
	if labels := r.labels(); len(labels) > 0 {
		arguments = append(arguments, "--node-labels="+strings.Join(labels, ","))
	}
	if taints := r.taints(); len(taints) > 0 {
		arguments = append(arguments, "--register-with-taints="+strings.Join(taints, ","))
	}
	if id := r.a.GetProviderId(); id != "" {
		arguments = append(arguments, "--provider-id="+id)
	}
	var command strings.Builder
	// systemd looks for it in /usr/local/bin, then in /usr/bin.
	command.WriteString("ExecStart=kubelet")
	for _, argument := range arguments {
		command.WriteString(" \\\n  " + unitWord(argument))
	}
	r.slot(unitDir+"/kubelet.service", 0o644, `[Unit]
Description=Kubernetes node agent
Documentation=https://kubernetes.io/docs/
Wants=containerd.service network-online.target
After=containerd.service network-online.target
StartLimitIntervalSec=0

[Service]
`+command.String()+`
Restart=always
RestartSec=5
`)
	// What an image's own packages add to the unit would set its command again.
	r.add(File{Place: Slot, Path: unitDir + "/kubelet.service.d/10-kubeadm.conf", Link: "/dev/null"})
	r.enable("kubelet.service", "multi-user.target.wants")
}

// labels are those that the kubelet registers, as `key=value`, ordered. The group's win.
func (r *renderer) labels() []string {
	merged := map[string]string{}
	for _, layer := range []struct {
		field  string
		labels map[string]string
	}{{"kubernetes.nodeLabels", r.t.GetKubernetes().GetNodeLabels()}, {"node.labels", r.a.GetNode().GetLabels()}} {
		for _, key := range slices.Sorted(maps.Keys(layer.labels)) {
			value := layer.labels[key]
			switch {
			case !isQualified(key):
				r.problem(layer.field, "%q is not the name of a label", key)
			case !labelValue.MatchString(value):
				r.problem(layer.field+"."+key, "%q is not the value of a label", value)
			case !registrable(key):
				r.problem(layer.field, "%q is a label that no kubelet may set of its own Node: use another domain than kubernetes.io and k8s.io, or node.kubernetes.io", key)
			}
			merged[key] = value
		}
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(merged)) {
		all = append(all, key+"="+merged[key])
	}
	return all
}

// taints are those that the kubelet registers, as `key=value:effect`. A taint of the template
// gives way to those of the group with its key.
func (r *renderer) taints() []string {
	var merged []*nstancev1.MachineTaint
	group := slices.Concat(r.a.GetNode().GetTaints(), r.a.GetNode().GetStartupTaints())
	r.checkTaints("node.taints", group)
	r.checkTaints("kubernetes.taints", r.t.GetKubernetes().GetTaints())
	for _, t := range r.t.GetKubernetes().GetTaints() {
		if !slices.ContainsFunc(group, func(g *nstancev1.MachineTaint) bool { return g.GetKey() == t.GetKey() }) {
			merged = append(merged, t)
		}
	}
	var all []string
	for _, t := range append(merged, group...) {
		all = append(all, fmt.Sprintf("%s=%s:%s", t.GetKey(), t.GetValue(), t.GetEffect()))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (r *renderer) checkTaints(field string, taints []*nstancev1.MachineTaint) {
	for i, t := range taints {
		at := fmt.Sprintf("%s[%d]", field, i)
		if !isQualified(t.GetKey()) {
			r.problem(at+".key", "%q is not the name of a taint", t.GetKey())
		}
		if !labelValue.MatchString(t.GetValue()) {
			r.problem(at+".value", "%q is not the value of a taint", t.GetValue())
		}
		if !slices.Contains([]string{"NoSchedule", "PreferNoSchedule", "NoExecute"}, t.GetEffect()) {
			r.problem(at+".effect", "%q must be one of NoSchedule, PreferNoSchedule and NoExecute", t.GetEffect())
		}
	}
}

// isQualified says whether a text can be the name of a label or a taint: one with a domain
// before a slash, or without.
func isQualified(name string) bool {
	domain, plain, prefixed := strings.Cut(name, "/")
	if !prefixed {
		return qualifiedName.MatchString(name)
	}
	return len(domain) <= 253 && subdomain.MatchString(domain) && qualifiedName.MatchString(plain)
}

// kubeletLabels are the labels of Kubernetes' own domains that a kubelet may set of its Node. It
// does not start with others.
var kubeletLabels = []string{
	"beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type", "beta.kubernetes.io/os",
	"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
	"kubernetes.io/arch", "kubernetes.io/hostname", "kubernetes.io/os",
	"node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
}

// registrable says whether a kubelet may set a label of its own Node.
func registrable(key string) bool {
	domain, _, prefixed := strings.Cut(key, "/")
	of := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	return !prefixed || slices.Contains(kubeletLabels, key) || of("kubelet.kubernetes.io") || of("node.kubernetes.io") ||
		!of("kubernetes.io") && !of("k8s.io")
}
