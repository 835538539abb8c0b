package release

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sums are the checksums of all files of a release, by their paths in it.
func Sums(dir string) (map[string]string, error) {
	files, err := Tree(dir)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, f := range files {
		sum := sha256.Sum256(f.Data)
		sums[f.To] = hex.EncodeToString(sum[:])
	}
	return sums, nil
}

// Checksums are sums in the form of sha256sum.
func Checksums(sums map[string]string) []byte {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&out, "%s  %s\n", sums[name], name)
	}
	return []byte(out.String())
}

type digests map[string]string

type subject struct {
	Name   string  `json:"name"`
	Digest digests `json:"digest"`
}

type resource struct {
	URI    string  `json:"uri"`
	Digest digests `json:"digest,omitempty"`
}

// Builder is who made a release, and in which way.
type Builder struct {
	ID     string            // of who built it: a person's machine, or the workflow of a CI system
	Source string            // of the repository
	With   map[string]string // what the build was told
}

// Provenance is a statement of in-toto with a predicate of SLSA (provenance/v1): these files
// were made of that commit. Who signs it vouches for it.
func Provenance(sums map[string]string, v Version, b Builder) ([]byte, error) {
	var subjects []subject
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		subjects = append(subjects, subject{Name: name, Digest: digests{"sha256": sums[name]}})
	}
	statement := map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "https://nstance.dev/make-release/v1",
				"externalParameters":   map[string]any{"version": v.Name, "with": b.With},
				"resolvedDependencies": []resource{{URI: b.Source, Digest: digests{"gitCommit": v.Commit}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": b.ID}},
		},
	}
	data, err := json.MarshalIndent(statement, "", "  ")
	return append(data, '\n'), err
}

// Write writes a file of a release, and the folders above it.
func Write(dir, name string, data []byte) error {
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}
