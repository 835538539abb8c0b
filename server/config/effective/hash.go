package effective

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"nstance.dev/server/config/document"
)

// The structs below are what the hashes of a group are made of. They stand
// apart from the configuration's own types, so that a new field there changes
// no hash: a changed infra hash replaces every machine of every fleet. Golden
// files pin them. Never change a field of these without meaning to.

type runtimeInput struct {
	Vars         map[string]string   `json:"vars"`
	Files        map[string]hashFile `json:"files"`
	Certificates map[string]string   `json:"certificates"` // digests of those that files name
}

type infraInput struct {
	Args         any          `json:"args"`
	InstanceType []string     `json:"instance_type"`
	SubnetPool   string       `json:"subnet_pool"`
	Userdata     hashUserdata `json:"userdata"`
	Kind         string       `json:"kind"`
	Arch         string       `json:"arch"`
	Outranked    []string     `json:"outranked,omitempty"`
	Machine      string       `json:"machine,omitempty"` // the policy that user data writes to the host
}

type hashUserdata struct {
	Source   string `json:"source"`
	Encoding string `json:"encoding"`
	Content  string `json:"content"`
}

type hashFile struct {
	Kind     string `json:"kind"`
	Template any    `json:"template,omitempty"`
	Source   string `json:"source,omitempty"`
	KeyFrom  string `json:"key_source,omitempty"`
	KeyName  string `json:"key_name,omitempty"`
}

type hashCertificate struct {
	Kind         string   `json:"kind"`
	CN           string   `json:"cn"`
	Organization []string `json:"organization"`
	Country      []string `json:"country"`
	Province     []string `json:"province"`
	Locality     []string `json:"locality"`
	Street       []string `json:"street"`
	PostalCode   []string `json:"postal_code"`
	DNS          []string `json:"dns"`
	IP           []string `json:"ip"`
	URI          []string `json:"uri"`
	TTL          int      `json:"ttl"`
}

// etagInput is everything about a group that a caller can see change.
type etagInput struct {
	Runtime       string         `json:"runtime"`
	Infra         string         `json:"infra"`
	Template      string         `json:"template"`
	Size          int            `json:"size"`
	Allowed       []string       `json:"allowed_instance_types"`
	LoadBalancers []string       `json:"load_balancers"`
	DrainTimeout  int64          `json:"drain_timeout"`
	Rails         document.Rails `json:"rails"`
	Static        bool           `json:"static"`
	Deleted       bool           `json:"deleted"`

	Demand       *document.Demand               `json:"demand,omitempty"`
	Requirements *document.InstanceRequirements `json:"instance_requirements,omitempty"`
	Node         *document.Node                 `json:"node,omitempty"`
	Reuse        bool                           `json:"reuse,omitempty"`
}

// seal computes the hashes of a merged group.
func (g *Group) seal(certificates map[string]document.Certificate) {
	in := runtimeInput{Vars: orEmpty(g.Vars), Files: map[string]hashFile{}, Certificates: map[string]string{}}
	for name, f := range g.Files {
		h := hashFile{Kind: f.Kind, Template: f.Template, Source: f.Source}
		if f.Key != nil {
			h.KeyFrom, h.KeyName = f.Key.Source, f.Key.Name
		}
		in.Files[name] = h
		if key, ok := f.Template.(string); ok && f.Kind == document.FileCertificate {
			in.Certificates[key] = digest(certificateInput(certificates[key]))
		}
	}
	g.RuntimeHash = digest(in)
	g.InfraHash = g.infraHash(g.InstanceTypes)
	if g.Demand != nil {
		g.InfraHash = g.infraHash(nil)
	}
	seen := etagInput{
		Runtime: g.RuntimeHash, Infra: g.InfraHash, Template: g.Template, Size: g.Size,
		Allowed: orNone(g.AllowedInstanceTypes), LoadBalancers: orNone(g.LoadBalancers), DrainTimeout: int64(g.DrainTimeout),
		Rails: g.Rails, Static: g.Static, Deleted: g.Deleted,
		Demand: g.Demand, Requirements: g.Requirements, Reuse: g.Reuse,
	}
	if !g.Node.IsZero() {
		seen.Node = &g.Node
	}
	g.ETag = digest(seen)
}

// infraHash is the hash of a machine of this group that may have the types.
func (g *Group) infraHash(types []string) string {
	return digest(infraInput{
		Args: orEmpty(g.Args), InstanceType: orNone(types), SubnetPool: g.SubnetPool,
		Userdata: hashUserdata(g.Userdata), Kind: g.Kind, Arch: g.Arch, Outranked: g.Outranked,
		Machine: g.Machine.PolicyText(),
	})
}

// MadeLike tells which machines were made from what the group is made from now, whatever they
// record, when the mode of the group was another one, or the choice of types in mode demand:
// neither a change of mode nor one of that choice outdates a machine. It remembers what it has
// computed, and is for one goroutine.
func (g *Group) MadeLike() func(infraHash, instanceType string) bool {
	untyped := ""
	byType := map[string]string{}
	return func(infraHash, instanceType string) bool {
		if infraHash == g.InfraHash {
			return true
		}
		if untyped == "" {
			untyped = g.infraHash(nil)
		}
		if g.Demand == nil {
			return infraHash == untyped && slices.Contains(g.InstanceTypes, instanceType)
		}
		if _, known := byType[instanceType]; !known {
			byType[instanceType] = g.infraHash([]string{instanceType})
		}
		return infraHash == byType[instanceType] || infraHash == g.infraHash(g.InstanceTypes)
	}
}

func certificateInput(c document.Certificate) hashCertificate {
	return hashCertificate{
		Kind: c.Kind, CN: c.CN, Organization: orNone(c.Organization), Country: orNone(c.Country),
		Province: orNone(c.Province), Locality: orNone(c.Locality), Street: orNone(c.Street),
		PostalCode: orNone(c.PostalCode), DNS: orNone(c.DNS), IP: orNone(c.IP), URI: orNone(c.URI), TTL: int(c.TTL),
	}
}

// orEmpty and orNone make nothing and an absent thing hash alike.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

func orNone(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// digest is "sha256:" and the hex digest of v's canonical JSON.
func digest(v any) string {
	sum := sha256.Sum256(canonical(v))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// canonical gives the one JSON text of v: keys in order, no white space, no
// escapes for HTML, numbers in one form.
func canonical(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("config: value without JSON form: " + err.Error()) // values come out of JSON
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		panic("config: own JSON does not parse: " + err.Error())
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(normalise(tree)); err != nil {
		panic("config: value without JSON form: " + err.Error())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// normalise gives 1, 1.0 and 1e0 one form.
func normalise(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = normalise(value)
		}
	case []any:
		for i := range v {
			v[i] = normalise(v[i])
		}
	case json.Number:
		return number(v)
	}
	return v
}

func number(n json.Number) any {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return i
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		return n
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return int64(f)
	}
	return f
}

// Same says whether two values have the same canonical JSON.
func Same(a, b any) bool { return bytes.Equal(canonical(a), canonical(b)) }
