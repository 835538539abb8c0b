package guest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/server/driver/drivertest/guest"
)

func TestParseUserData(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want guest.UserData
	}{
		"a script":          {"#!/bin/sh\necho hi\n", guest.UserData{Shell: "sh", Script: "#!/bin/sh\necho hi\n"}},
		"a script for bash": {"#!/usr/bin/env bash\n[[ 1 ]]\n", guest.UserData{Shell: "bash", Script: "#!/usr/bin/env bash\n[[ 1 ]]\n"}},
		"an empty cloud-config": {
			"#cloud-config\n", guest.UserData{Shell: "sh"},
		},
		"everything in order": {
			strings.Join([]string{
				"#cloud-config",
				"hostname: one",
				"runcmd:",
				"  - [systemctl, start, \"it's\"]",
				"  - echo $HOME | cat",
				"write_files:",
				"  - path: /opt/nstance-agent/a",
				"    permissions: '0600'",
				"    content: |",
				"      text",
				"  - {path: /etc/nstance/b, encoding: b64, content: AAE=, append: true, owner: 'root:root', defer: true}",
				"bootcmd:",
				"  - echo first",
			}, "\n"),
			guest.UserData{
				Shell: "sh",
				Script: strings.Join([]string{
					"echo first",
					"mkdir -p '/opt/nstance-agent'",
					"rm -f '/opt/nstance-agent/a'",
					`cat "$GUEST_DIR/files/0" > '/opt/nstance-agent/a'`,
					"chmod 0600 '/opt/nstance-agent/a'",
					"mkdir -p '/etc/nstance'",
					`cat "$GUEST_DIR/files/1" >> '/etc/nstance/b'`,
					"chmod 0644 '/etc/nstance/b'",
					`'systemctl' 'start' 'it'\''s'`,
					"echo $HOME | cat",
					"",
				}, "\n"),
				Files: [][]byte{[]byte("text\n"), {0, 1}},
			},
		},
	} {
		got, err := guest.ParseUserData([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseUserDataRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "must begin with #!/bin/sh or #cloud-config",
		"echo hi":                            `begins with "echo hi"`,
		"#!/usr/bin/python3\n":               "must be sh or bash",
		"#!/bin/sh -e\n":                     "without options",
		"#cloud-config\npackages: [nginx]\n": `"packages"`,
		"#cloud-config\nruncmd: [7: 8]\n":    "neither a line nor a list",
		"#cloud-config\nruncmd: []\nruncmd: []\n":                                 "runcmd",
		"#cloud-config\nwrite_files: [{path: a}]\n":                               `path "a" is not absolute`,
		"#cloud-config\nwrite_files: [{path: /a/../b}]\n":                         "not absolute and plain",
		"#cloud-config\nwrite_files: [{path: /a, permissions: rw}]\n":             "octal",
		"#cloud-config\nwrite_files: [{path: /a, encoding: gz}]\n":                `encoding "gz"`,
		"#cloud-config\nwrite_files: [{path: /a, encoding: b64, content: '%'}]\n": "base64",
	} {
		_, err := guest.ParseUserData([]byte(text))
		if !errors.Is(err, guest.ErrUserData) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want one that says %q", text, err, want)
		}
	}
}
