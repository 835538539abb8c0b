package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// JoinFile is the file in a machine's directory by which it is a Node, as long as it is there.
const JoinFile = "node.json"

// JoinScript is what a machine of the local provider runs to join a cluster whose agents
// [Follow] what [Joined] says: it writes its [JoinFile], and what makes it leave, which removes
// it. The Node has the labels and taints that the machine is told, one label more, and this
// provider id.
//
// The Node object stays when the machine leaves, as it does with a kubelet.
func JoinScript(providerID, label string) string {
	return fmt.Sprintf(`#!/bin/sh
set -eu
umask 077
cd "$NSTANCE_MACHINE_DIR"
printf '#!/bin/sh\nrm -f "$NSTANCE_MACHINE_DIR/%[1]s"\n' >leave.d/10-node
chmod 700 leave.d/10-node
cat >%[1]s.part <<END
{"life": "$NSTANCE_BINDING_ID", "providerID": "%[2]s", "labels": "$NSTANCE_NODE_LABELS,%[3]s", "taints": "$NSTANCE_NODE_TAINTS"}
END
mv %[1]s.part %[1]s
`, JoinFile, providerID, label)
}

// joined is what a [JoinFile] says. Lists are separated by commas, as in the kubelet's flags.
type joined struct {
	Life       string `json:"life"`
	ProviderID string `json:"providerID"`
	Labels     string `json:"labels"` // name=value
	Taints     string `json:"taints"` // key=value:effect
}

// Joined returns what lists the machines that have joined, of those that have a directory
// matched by the pattern, in the form of [filepath.Match]; with adds what the file does not say
// of a machine. A machine whose process has ended without leaving is not one of them: it lost
// its power.
func Joined(pattern string, with func(*Machine)) func(context.Context) ([]Machine, error) {
	known := map[string]Machine{} // by the life of the machine and its directory
	return func(context.Context) ([]Machine, error) {
		files, err := filepath.Glob(filepath.Join(pattern, JoinFile))
		if err != nil {
			return nil, err
		}
		var all []Machine
		for _, file := range files {
			if !powered(filepath.Dir(file)) {
				continue
			}
			data, err := os.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has left just now
			}
			if err != nil {
				return nil, err
			}
			key := file + string(data)
			machine, read := known[key]
			if !read {
				if machine, err = parseJoined(filepath.Base(filepath.Dir(file)), data); err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				if with != nil {
					with(&machine)
				}
				known[key] = machine
			}
			all = append(all, machine)
		}
		return all, nil
	}
}

// powered is whether the process of a machine runs.
func powered(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && syscall.Kill(pid, 0) == nil
}

// parseJoined reads the file of the machine with that name.
func parseJoined(name string, data []byte) (Machine, error) {
	var file joined
	if err := json.Unmarshal(data, &file); err != nil {
		return Machine{}, err
	}
	m := Machine{Name: name, Life: file.Life, ProviderID: file.ProviderID, Labels: map[string]string{}}
	for _, entry := range entries(file.Labels) {
		key, value, found := strings.Cut(entry, "=")
		if !found {
			return Machine{}, fmt.Errorf("label %q", entry)
		}
		m.Labels[key] = value
	}
	for _, entry := range entries(file.Taints) {
		rest, effect, found := strings.Cut(entry, ":")
		if !found {
			return Machine{}, fmt.Errorf("taint %q", entry)
		}
		key, value, _ := strings.Cut(rest, "=")
		m.Taints = append(m.Taints, corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)})
	}
	return m, nil
}

// entries are those of a list that is not empty.
func entries(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(entry string) bool { return entry == "" })
}
