package unit

import (
	"slices"
	"strings"
	"testing"

	"nstance.dev/protos/binding"
)

// cloudInit writes down how it is called, and the commands of a cloud-config as the real one
// does. The older form takes --file before the command alone.
const cloudInit = `#!/bin/sh
if [ "$*" = "single --help" ]; then
	echo "usage: cloud-init single [-h] --name NAME $HELP"
	exit 0
fi
echo "$*" | sed "s|$MACHINE|M|" >>$MACHINE/calls
case "$*" in
*"--name packages_fail"*) exit 1 ;;
*"--name package_update_upgrade_install"*) [ ! -e $MACHINE/nopackages ] || exit 5 ;;
*"--name runcmd "*) printf '#!/bin/sh\necho "$NSTANCE_BINDING_ID ran" >>$MACHINE/ran\n[ ! -e $MACHINE/fail ] || exit 6\n' >$MACHINE/runcmd; chmod 700 $MACHINE/runcmd ;;
esac
`

const kubeadm = `#cloud-config
# ` + marked + `
write_files:
- path: /run/kubeadm/join.yaml
  content: |
    users: of nothing
packages: [kubeadm]
runcmd:
  - kubeadm join --config /run/kubeadm/join.yaml
`

func TestCloudConfig(t *testing.T) {
	for help, want := range map[string]string{
		"--file FILES": `single --name write_files --frequency always --file M/state/private/blob
single --name package_update_upgrade_install --frequency always --file M/state/private/blob
single --name write_files_deferred --frequency always --file M/state/private/blob
single --name runcmd --frequency always --file M/state/private/blob
`,
		"": `--file M/state/private/blob single --name write_files --frequency always
--file M/state/private/blob single --name package_update_upgrade_install --frequency always
--file M/state/private/blob single --name write_files_deferred --frequency always
--file M/state/private/blob single --name runcmd --frequency always
`,
	} {
		m := newMachine(t)
		m.write("cloud-init", cloudInit, 0o755)
		m.opts.Env = append(m.opts.Env, "HELP="+help)
		m.expect("join", m.joins("b1", kubeadm), "b1", binding.Joining, binding.Done, 0)
		if got := m.read("calls"); got != want {
			t.Errorf("calls\n%swant\n%s", got, want)
		}
		if m.read("ran") != "b1 ran\n" || m.read("runcmd") != "" {
			t.Errorf("ran %q, commands left over %q", m.read("ran"), m.read("runcmd"))
		}
		m.expectNoSecret(marked)
	}
}

func TestCloudConfigsThatFail(t *testing.T) {
	for _, tt := range []struct {
		name, file, config string
		exit               int
		says, ran          string
	}{
		{"a module", "nopackages", kubeadm, 5, "cloud-init, module package_update_upgrade_install: exit status 5", ""},
		{"a command", "fail", kubeadm, 6, "runcmd: exit status 6", "b1 ran\n"},
		{"a key that is not supported", "x", "#cloud-config\npower_state: {mode: reboot}\nruncmd: [a]\n", binding.NoExit, "power_state", ""},
		{"flow style", "x", "#cloud-config\n{runcmd: [a]}\n", binding.NoExit, "block style", ""},
		{"a quoted key", "x", "#cloud-config\n\"runcmd\": [a]\n", binding.NoExit, "block style", ""},
		{"two documents", "x", "#cloud-config\nruncmd: [a]\n---\nusers: []\n", binding.NoExit, "block style", ""},
		{"a list", "x", "#cloud-config\n- runcmd\n", binding.NoExit, "block style", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine(t)
			m.write("cloud-init", cloudInit, 0o755)
			m.write(tt.file, "yes", 0o600)
			r := m.joins("b1", tt.config)
			m.expect(tt.name, r, "b1", binding.Joining, binding.Failed, tt.exit)
			if !strings.Contains(r.Error, tt.says) || m.read("ran") != tt.ran || m.read("runcmd") != "" {
				t.Errorf("error %q, ran %q, commands left over %q", r.Error, m.read("ran"), m.read("runcmd"))
			}
		})
	}
}

func TestModulesOf(t *testing.T) {
	for config, want := range map[string][]string{
		"#cloud-config\n":                                {},
		"#cloud-config\nruncmd:\n- a: b\n-\n  c\n":       {"runcmd"},
		"#cloud-config\r\nbootcmd: [a]\r\nusers:\r\n":    {"bootcmd", "users_groups"},
		"#cloud-config\nusers: []\nbootcmd: []\n":        {"bootcmd", "users_groups"},
		"#cloud-config\nswap: {}\nmounts: []\nntp : x\n": {"mounts", "ntp"},
		"#cloud-config\nfinal_message: runcmd\n":         {},
	} {
		got, err := modulesOf([]byte(config))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", config, got, err, want)
		}
	}
}

// What is accepted names modules of the table alone, and no error quotes a value (S14).
func FuzzModulesOf(f *testing.F) {
	f.Add([]byte(kubeadm))
	f.Add([]byte("#cloud-config\nusers: " + marked))
	f.Add([]byte("#cloud-config\n\"" + marked + "\": a"))
	f.Fuzz(func(t *testing.T, config []byte) {
		modules, err := modulesOf(config)
		if err != nil && len(err.Error()) > 200 {
			t.Fatalf("a long error: %v", err)
		}
		for i, m := range modules {
			if !slices.ContainsFunc(parts, func(p part) bool { return p.module == m }) || slices.Contains(modules[:i], m) {
				t.Fatalf("modules %q", modules)
			}
		}
	})
}
