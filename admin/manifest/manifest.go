// Package manifest reads the files that describe groups for people: YAML or
// JSON, one document per group, in the field names of the API.
//
//	key: web
//	config:
//	  template: worker
//	  size: 3
//	  vars: {region: eu}
//
// A file is read as a whole before anything of it is used, and everything that
// is wrong with it is reported at once. Whether a group may look like this, the
// server decides.
package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// MaxSize is the size of the largest file that is read, in bytes.
const MaxSize = 4 << 20

// Parse reads all documents of a file, whose name is for messages only. A file
// without any document is an error.
func Parse(name string, data []byte) ([]*nstancev1.UpsertGroupRequest, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, MaxSize)
	}
	documents, err := split(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var groups []*nstancev1.UpsertGroupRequest
	var errs []error
	seen := map[string]int{}
	for i, document := range documents {
		group, problems := parse(document)
		if key := group.GetKey(); seen[key] > 0 && key != "" {
			problems = append(problems, fmt.Errorf("key: group %q stands in document %d already", key, seen[key]))
		}
		seen[group.GetKey()] = i + 1
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("%s: document %d: %w", name, i+1, problem))
		}
		groups = append(groups, group)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s: it describes no group", name)
	}
	return groups, errors.Join(errs...)
}

// split cuts a file into its documents: JSON objects one after the other, or
// YAML between lines of three hyphens. Empty documents are left out.
func split(data []byte) ([][]byte, error) {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if documents, err := splitJSON(data); err == nil {
			return documents, nil
		}
		// It may still be YAML in braces.
	}
	var documents [][]byte
	var current bytes.Buffer
	flush := func() {
		if !blank(current.Bytes()) {
			documents = append(documents, bytes.Clone(current.Bytes()))
		}
		current.Reset()
	}
	for line := range bytes.Lines(data) {
		if text := strings.TrimRight(string(line), " \t\r\n"); text == "---" || text == "..." {
			flush()
			continue
		}
		current.Write(line)
	}
	flush()
	return documents, nil
}

func splitJSON(data []byte) ([][]byte, error) {
	var documents [][]byte
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// blank reports whether a document has nothing but comments.
func blank(document []byte) bool {
	for line := range bytes.Lines(document) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			return false
		}
	}
	return true
}

func parse(document []byte) (*nstancev1.UpsertGroupRequest, []error) {
	group := &nstancev1.UpsertGroupRequest{}
	data, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return group, []error{fmt.Errorf("neither YAML nor JSON: %w", err)}
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return group, []error{errors.New("it must be an object with the fields key and config")}
	}
	problems := check(group.ProtoReflect().Descriptor(), "", tree)
	if key, ok := tree["key"]; !ok || key == "" {
		problems = append(problems, errors.New("key: it is missing"))
	}
	if len(problems) > 0 {
		if key, ok := tree["key"].(string); ok {
			group.Key = key
		}
		return group, problems
	}
	if data, err = json.Marshal(tree); err != nil {
		return group, []error{err}
	}
	if err := protojson.Unmarshal(data, group); err != nil {
		return group, []error{fmt.Errorf("not a group: %w", err)}
	}
	return group, nil
}
