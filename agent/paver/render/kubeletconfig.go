package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// mostKubeletConfig bounds the configuration of a template, bytes.
const mostKubeletConfig = 65536

// forbidden are members of a kubelet's configuration that a template cannot set, in small
// letters: who may call the kubelet, and how it gets its certificates, is not a matter of
// a node's content. What begins with `tls` is forbidden too.
var forbidden = []string{"authentication", "authorization", "port", "rotatecertificates", "staticpodurl", "staticpodurlheader"}

// reservable are the resources that a kubelet can keep from Pods.
var reservable = []string{"cpu", "ephemeral-storage", "memory", "pid"}

// kubeletConfig returns the configuration of the kubelet: our defaults, the template's over
// them, and over both what the group promises of its Nodes.
func (r *renderer) kubeletConfig() *yaml.Node {
	k := r.t.GetKubernetes()
	defaults := map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": ClusterCA},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"cgroupDriver":             "systemd",
		"clusterDNS":               r.clusterDNS(),
		"clusterDomain":            r.clusterDomain(),
		"containerRuntimeEndpoint": "unix://" + ContainerdSocket,
		"protectKernelDefaults":    true,
		"readOnlyPort":             0,
		"resolvConf":               PodResolvConf,
		"rotateCertificates":       true,
		"serverTLSBootstrap":       false,
		"staticPodPath":            "",
	}
	config := encoded(defaults)
	template, err := parseKubeletConfig(k.GetKubeletConfig())
	if err != nil {
		r.problem("kubernetes.kubeletConfig", "%v", err)
		return config
	}
	if template != nil {
		merge(config, template)
	}
	merge(config, encoded(r.promised()))
	return config
}

// promised is what the group says of its Nodes, as far as it is the kubelet's configuration.
func (r *renderer) promised() map[string]any {
	group, promised := r.a.GetNode(), map[string]any{}
	switch n := group.GetMaxPods(); {
	case n < 0:
		r.problem("node.max_pods", "%d must not be negative", n)
	case n > 0:
		promised["maxPods"] = n
	}
	reserved := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(group.GetReserved())) {
		amount := group.GetReserved()[name]
		switch {
		case !quantity.MatchString(amount):
			r.problem("node.reserved."+name, "%q is not an amount such as 500m or 1Gi", amount)
		case slices.Contains(reservable, name):
			reserved[name] = amount
		}
	}
	if len(reserved) > 0 {
		promised["kubeReserved"] = reserved
	}
	return promised
}

func (r *renderer) clusterDNS() []string {
	addresses := []string{}
	for i, address := range r.t.GetKubernetes().GetClusterDns() {
		if !clusterAddress.MatchString(address) {
			r.problem(fmt.Sprintf("kubernetes.clusterDNS[%d]", i), "%q is not an address", address)
		}
		addresses = append(addresses, address)
	}
	return addresses
}

func (r *renderer) clusterDomain() string {
	domain := r.t.GetKubernetes().GetClusterDomain()
	if domain == "" {
		return "cluster.local"
	}
	if len(domain) > 253 || !subdomain.MatchString(domain) {
		r.problem("kubernetes.clusterDomain", "%q is not a domain", domain)
	}
	return domain
}

// SwapAllowed says whether the kubelet of a template starts on a host with swap.
func SwapAllowed(t *nstancev1.MachineTemplate) bool {
	config, err := parseKubeletConfig(t.GetKubernetes().GetKubeletConfig())
	if err != nil || config == nil {
		return false
	}
	at := find(config, "failSwapOn")
	return at >= 0 && config.Content[at].ShortTag() == "!!bool" && strings.EqualFold(config.Content[at].Value, "false")
}

// cgroupDriver is the driver that a kubelet's configuration names. The container runtime must
// have the same.
func cgroupDriver(config *yaml.Node) string {
	if at := find(config, "cgroupDriver"); at >= 0 {
		return config.Content[at].Value
	}
	return ""
}

// parseKubeletConfig reads a template's configuration; nil if it says nothing.
func parseKubeletConfig(text string) (*yaml.Node, error) {
	if len(text) > mostKubeletConfig {
		return nil, fmt.Errorf("is longer than %d bytes", mostKubeletConfig)
	}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("is not YAML: %w", err)
	case !errors.Is(decoder.Decode(&more), io.EOF):
		return nil, errors.New("must be one document")
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("must be the members of a KubeletConfiguration")
	}
	if err := plain(root, ""); err != nil {
		return nil, err
	}
	for i := 0; i < len(root.Content); i += 2 {
		if err := allowed(root.Content[i].Value, root.Content[i+1]); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// allowed says whether a template may set a member of the kubelet's configuration. Letters of
// both cases are one: a reader that is lenient about them would take the member.
func allowed(name string, value *yaml.Node) error {
	small := strings.ToLower(name)
	want := map[string]string{"apiversion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}[small]
	switch {
	case slices.Contains(forbidden, small) || strings.HasPrefix(small, "tls"):
		return fmt.Errorf("%s cannot be set: take it out", name)
	case want != "" && value.Value != want:
		return fmt.Errorf("%s must be %s", name, want)
	}
	return nil
}

// plain reduces a value to what JSON has too: mappings with different texts as names, lists and
// scalars. A reader of another YAML version must find in it what we find.
func plain(n *yaml.Node, at string) error {
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return fmt.Errorf("line %d: anchors and aliases are not supported", n.Line)
	case n.Style&yaml.TaggedStyle != 0:
		return fmt.Errorf("line %d: tags are not supported", n.Line)
	}
	n.Style &^= yaml.FlowStyle
	switch n.Kind {
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if err := plain(item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case yaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i]
			if name.Kind != yaml.ScalarNode || name.ShortTag() != "!!str" {
				return fmt.Errorf("line %d: the name of a member must be a text", name.Line)
			}
			if seen[name.Value] {
				return fmt.Errorf("line %d: %s is given twice", name.Line, strings.TrimPrefix(at+"."+name.Value, "."))
			}
			seen[name.Value] = true
			if err := errors.Join(plain(name, at), plain(n.Content[i+1], at+"."+name.Value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge lays one mapping over another: mappings in both are merged, everything else is
// replaced.
func merge(base, over *yaml.Node) {
	for i := 0; i < len(over.Content); i += 2 {
		name, value := over.Content[i], over.Content[i+1]
		switch at := find(base, name.Value); {
		case at < 0:
			base.Content = append(base.Content, name, value)
		case base.Content[at].Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			merge(base.Content[at], value)
		default:
			base.Content[at] = value
		}
	}
}

// find returns where in a mapping's content the value of a member is; -1: it has none of the
// name.
func find(mapping *yaml.Node, name string) int {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return i + 1
		}
	}
	return -1
}

// ordered sorts the members of all mappings by name.
func ordered(n *yaml.Node) {
	for _, child := range n.Content {
		ordered(child)
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	pairs := slices.Collect(slices.Chunk(n.Content, 2))
	slices.SortFunc(pairs, func(a, b []*yaml.Node) int { return strings.Compare(a[0].Value, b[0].Value) })
	n.Content = slices.Concat(pairs...)
}

// encoded is a value as YAML has it.
func encoded(value any) *yaml.Node {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		panic("render: a value without YAML form: " + err.Error()) // maps, lists and scalars
	}
	return &n
}

// yamlText is the text of a value.
func yamlText(n *yaml.Node) (string, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(n), encoder.Close()); err != nil {
		return "", err
	}
	return text.String(), nil
}
