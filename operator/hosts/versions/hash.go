package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Hash returns `sha256:` and the hex digest of a template as canonical JSON: keys sorted, the
// schema's defaults applied, and empty lists, maps and objects left out. Templates that build
// the same node machine have the same hash.
func Hash(template *hostsv1.Template) hostsv1.SHA256 {
	text, err := json.Marshal(WithDefaults(template))
	if err != nil { // strings, numbers and booleans, in maps with string keys
		panic(fmt.Sprintf("versions: encode a template: %v", err))
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		panic(fmt.Sprintf("versions: decode a template: %v", err))
	}
	canonical, err := json.Marshal(pruned(tree)) // the keys of maps come out sorted
	if err != nil {
		panic(fmt.Sprintf("versions: encode a template: %v", err))
	}
	sum := sha256.Sum256(canonical)
	return hostsv1.SHA256("sha256:" + hex.EncodeToString(sum[:]))
}

// WithDefaults returns a copy with the defaults of the schema, also where the object that has
// them is absent.
func WithDefaults(template *hostsv1.Template) *hostsv1.Template {
	t := template.DeepCopy()
	set(&t.Kubernetes.ClusterDomain, "cluster.local")
	if d := t.Image.Debootstrap; d != nil {
		set(&d.Variant, "minbase")
	}
	if t.Machine == nil {
		t.Machine = &hostsv1.NodeMachine{}
	}
	set(&t.Machine.Network, hostsv1.NetworkHost)
	for i := range t.Machine.Files {
		set(&t.Machine.Files[i].Mode, "0644")
	}
	if t.Timeouts == nil {
		t.Timeouts = &hostsv1.Timeouts{}
	}
	set(&t.Timeouts.Prepare, "20m")
	set(&t.Timeouts.Stop, "3m")
	set(&t.Timeouts.Boot, "2m")
	set(&t.Timeouts.Join, "10m")
	return t
}

func set[T ~string](field *T, value T) {
	if *field == "" {
		*field = value
	}
}

// pruned returns a tree without empty lists and objects.
func pruned(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			if value = pruned(value); empty(value) {
				delete(tree, key)
			} else {
				tree[key] = value
			}
		}
	case []any:
		for i := range tree {
			tree[i] = pruned(tree[i])
		}
	}
	return tree
}

func empty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}
