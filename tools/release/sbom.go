package release

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

type bom struct {
	Format       string      `json:"bomFormat"`
	Spec         string      `json:"specVersion"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
	Dependencies []depends   `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Ref     string `json:"bom-ref"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type depends struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// BillOfMaterials is a CycloneDX document of the modules that the linker has put into a
// program: what is in it, not what its sources could need. Modules of this repository have
// its version.
func BillOfMaterials(program string, v Version) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("modules of %s: %w", program, err)
	}
	name := info.Path[strings.LastIndex(info.Path, "/")+1:]
	self := component{Ref: "program", Type: "application", Name: name, Version: v.Name}
	std := strings.TrimPrefix(info.GoVersion, "go")
	all := []component{{Ref: "pkg:golang/std@" + std, Type: "library", Name: "std", Version: std, PURL: "pkg:golang/std@" + std}}
	for _, m := range info.Deps {
		all = append(all, module(m.Path, m.Version, m.Sum, v))
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	on := depends{Ref: self.Ref}
	for _, c := range all {
		on.On = append(on.On, c.Ref)
	}
	data, err := json.MarshalIndent(bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata:   metadata{Timestamp: v.Created.UTC().Format("2006-01-02T15:04:05Z"), Component: self},
		Components: all, Dependencies: []depends{on},
	}, "", "  ")
	return append(data, '\n'), err
}

func module(path, version, sum string, v Version) component {
	if strings.HasPrefix(path, "nstance.dev/") {
		version, sum = v.Name, ""
	}
	ref := "pkg:golang/" + path + "@" + version
	c := component{Ref: ref, Type: "library", Name: path, Version: version, PURL: ref}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == 32 {
		c.Hashes = []hash{{Alg: "SHA-256", Content: hex.EncodeToString(raw)}}
	}
	return c
}
