package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"nstance.dev/operator/program"
)

func TestExitCodes(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	tests := []struct {
		name   string
		args   []string
		want   int
		stdout string
		stderr []string
	}{
		{name: "help", args: []string{"--help"}, want: program.ExitOK, stdout: "Usage:\n  nstance-operator [flags]"},
		{name: "version", args: []string{"--version"}, want: program.ExitOK, stdout: "dev\n"},
		{
			name: "two mistakes", args: []string{"--namespace=ns", "--nonsense", "--webhook-port=none"}, want: program.ExitUsage,
			stderr: []string{"unknown flag --nonsense", `--webhook-port: "none" is not a number`},
		},
		{name: "no way to the API server", args: []string{"--namespace=ns", "--kubeconfig=" + nowhere}, want: program.ExitFailure, stderr: []string{`"msg":"operator exited"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := start(t.Context(), test.args, func(string) string { return "" }, &stdout, &stderr)
			if code != test.want || !strings.Contains(stdout.String(), test.stdout) {
				t.Errorf("exit code %d, want %d; it wrote %q", code, test.want, stdout.String())
			}
			for _, part := range test.stderr {
				if !strings.Contains(stderr.String(), part) {
					t.Errorf("it does not say %s: %s", part, stderr.String())
				}
			}
		})
	}
}
