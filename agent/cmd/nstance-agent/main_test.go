package main

import (
	"bytes"
	"strings"
	"testing"

	"nstance.dev/protos/identity"
)

func TestStart(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{
		identity.EnvInstanceID:     "knc068a3cp3thz5z2mv1gejwftabc",
		identity.EnvServerAddrFile: dir + "/leader.json",
		identity.EnvIdentityDir:    dir + "/identity",
		identity.EnvKeysDir:        dir + "/keys",
		identity.EnvRecvDir:        dir + "/recv",
	}
	for _, tt := range []struct {
		name           string
		args           []string
		env            map[string]string
		code           int
		stdout, stderr string
	}{
		{"version", []string{"--version"}, nil, 0, "dev\n", ""},
		{"help", []string{"--help"}, nil, 0, "", "-debug"},
		{"an unknown flag", []string{"--listen"}, nil, 2, "", "-listen"},
		{"an argument", []string{"start"}, nil, 2, "", `unexpected argument "start"`},
		{"an incomplete environment", nil, nil, 2, "", identity.EnvInstanceID + ": is required"},
		{"help of the unit", []string{"cluster-unit", "--help"}, nil, 0, "", "-requests"},
		{"an argument of the unit", []string{"cluster-unit", "b1"}, nil, 2, "", `unexpected argument "b1"`},
		{"an unknown flag of the unit", []string{"cluster-unit", "--listen"}, nil, 2, "", "-listen"},
		{"a relative directory of the unit", []string{"cluster-unit", "--state", "state"}, nil, 2, "", "absolute"},
		{"a unit without requests", []string{"cluster-unit", "--requests", dir + "/cluster", "--state", dir + "/state"}, nil, 0, "", ""},
		{"a unit without a place", []string{"cluster-unit", "--state", "/dev/null/state"}, nil, 1, "", "open state"},
		{"no authority", []string{"-v"}, env, 1, "", "certificate authority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := start(t.Context(), tt.args, func(name string) string { return tt.env[name] }, &stdout, &stderr)
			if code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
			}
		})
	}
}
