package config

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nstance.dev/server/config/texttemplate"
)

func TestDev_loads(t *testing.T) {
	text, err := Dev(DevOptions{
		MachinesDir: "/tmp/d/machines", EncryptionKeyFile: "/tmp/d/encryption.key", AgentPath: "/tmp/bin/nstance-agent", Size: 3, Arch: "amd64",
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Load("dev.jsonc", text, LoadOptions{Shard: "local", Storage: "file", Rules: &ProviderRules{Kind: ProviderLocal}})
	if err != nil {
		t.Fatal(err)
	}
	groups, problems := Effective(cfg, nil)
	if len(problems) > 0 || len(cfg.Warnings) > 0 {
		t.Errorf("problems %v, warnings %v", problems, cfg.Warnings)
	}
	g := groups[GroupKey{DefaultTenant, "web"}]
	if g == nil || g.Size != 3 || g.Kind != "dev" || g.DrainTimeout != 0 || len(g.Subnets) != 1 {
		t.Errorf("group web = %+v", g)
	}
	if cfg.Server.ShardElection.FrequentInterval.Std() != 5*time.Second/3 {
		t.Errorf("frequent_interval = %v", cfg.Server.ShardElection.FrequentInterval)
	}
}

func TestDev_refusesWhatLoadRefuses(t *testing.T) {
	for name, opts := range map[string]DevOptions{
		"no architecture": {MachinesDir: "/m", EncryptionKeyFile: "/k"},
		"negative size":   {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Size: -1},
		"bad group":       {MachinesDir: "/m", EncryptionKeyFile: "/k", Arch: "arm64", Group: "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Dev(opts); err == nil {
				t.Error("no error")
			}
		})
	}
}

// The user data is a script for /bin/sh: it lays out the identity once, and
// becomes the agent with its settings in the environment.
func TestDev_userdataRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "machines", "dev068a3cp3thz5z2mv1gejwftabc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(agent, []byte("#!/bin/sh\nenv | grep ^NSTANCE_ | sort\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(nonce string) string {
		parsed, err := texttemplate.Parse("userdata", devUserdata)
		if err != nil {
			t.Fatal(err)
		}
		data := texttemplate.Sample(nil, nil)
		data.Nonce = nonce
		script, err := parsed.Execute(data, texttemplate.Userdata, MaxUserdata)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh")
		cmd.Stdin = strings.NewReader(script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "NSTANCE_MACHINE_DIR=" + dir, "NSTANCE_AGENT=" + agent}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, "identity", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}

	env := run("it's a nonce")
	for _, want := range []string{
		"NSTANCE_INSTANCE_ID=smp068a3cp3thz5z2mv1gejwftabc\n", "NSTANCE_IDENTITY_DIR=" + dir + "/identity\n", "NSTANCE_KEYS_DIR=" + dir + "/keys\n",
		"NSTANCE_RECV_DIR=" + dir + "/recv\n", "NSTANCE_SERVER_ADDR_FILE=" + filepath.Dir(dir) + "/leader.json\n",
	} {
		if !strings.Contains(env, want) {
			t.Errorf("environment lacks %s:\n%s", want, env)
		}
	}
	if read("nonce.jwt") != "it's a nonce" || read("ca.crt") != texttemplate.Sample(nil, nil).Cluster.CACert {
		t.Error("the identity files are wrong")
	}
	if info, err := os.Stat(filepath.Join(dir, "identity", "nonce.jwt")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the nonce: %v, %v", info.Mode(), err)
	}

	if err := os.WriteFile(filepath.Join(dir, "identity", "identity.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("another")
	if read("nonce.jwt") != "it's a nonce" {
		t.Error("a machine that has an identity got a nonce again")
	}
}
