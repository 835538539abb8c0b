package unit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"nstance.dev/protos/binding"
)

// A part of a cloud-config is what one module of cloud-init reads. The modules run in this
// order, which is that of a first boot, and only those whose part is there: for the others
// cloud-init would take what the machine's user data say, and do it a second time.
type part struct{ key, module string }

var parts = []part{
	{"bootcmd", "bootcmd"},
	{"write_files", "write_files"},
	{"disk_setup", "disk_setup"},
	{"fs_setup", "disk_setup"},
	{"mounts", "mounts"},
	{"swap", "mounts"},
	{"ca_certs", "ca_certs"},
	{"groups", "users_groups"},
	{"users", "users_groups"},
	{"ntp", "ntp"},
	{"timezone", "timezone"},
	{"apt", "apt_configure"},
	{"yum_repos", "yum_add_repo"},
	{"package_update", "package_update_upgrade_install"},
	{"package_upgrade", "package_update_upgrade_install"},
	{"packages", "package_update_upgrade_install"},
	{"write_files", "write_files_deferred"},
	{runcmd, runcmd},
}

const runcmd = "runcmd"

// inert are keys that say nothing by themselves.
var inert = []string{"merge_how", "merge_type", "final_message", "output"}

var keyPattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:([ \t\r]|$)`)

// modulesOf returns the modules of cloud-init that a cloud-config needs, in their order. A key
// that no module here reads is an error: it would be ignored in silence. The error quotes no
// value.
func modulesOf(config []byte) ([]string, error) {
	keys, err := topLevelKeys(config)
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, p := range parts {
		if slices.Contains(keys, p.key) && !slices.Contains(modules, p.module) {
			modules = append(modules, p.module)
		}
	}
	for _, key := range keys {
		if !slices.Contains(inert, key) && !slices.ContainsFunc(parts, func(p part) bool { return p.key == key }) {
			return nil, fmt.Errorf("cloud-config: key %.80s is not supported", key)
		}
	}
	return modules, nil
}

var errMapping = errors.New("cloud-config: it is not a mapping in block style, with plain keys at the beginning of lines")

// topLevelKeys finds the keys of a mapping in block style: the only text, beside comments and
// items of lists, that can stand at the beginning of a line.
func topLevelKeys(config []byte) (keys []string, err error) {
	for line := range bytes.Lines(config) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 || bytes.ContainsRune([]byte(" \t#"), rune(line[0])) {
			continue
		}
		if string(line) == "-" || bytes.HasPrefix(line, []byte("- ")) {
			if len(keys) == 0 {
				return nil, errMapping
			}
			continue
		}
		match := keyPattern.FindSubmatch(line)
		if match == nil {
			return nil, errMapping
		}
		keys = append(keys, string(match[1]))
	}
	return keys, nil
}

// runCloudConfig has cloud-init do what a cloud-config says, once more after the machine's first
// boot. Commands are run by this program, so that they have its environment and their output and
// exit code are known.
func (u *Unit) runCloudConfig(ctx context.Context, output *tail, env []string, path string, config []byte) outcome {
	modules, err := modulesOf(config)
	if err != nil {
		return outcome{binding.NoExit, err.Error()}
	}
	// Where cloud-init reads further configuration from depends on its version.
	help := &tail{}
	u.command(ctx, help, env, u.opts.CloudInit, "single", "--help")
	inner := strings.Contains(string(help.data), "--file")
	for _, module := range modules {
		args := []string{"--file", path, "single", "--name", module, "--frequency", "always"}
		if inner {
			args = []string{"single", "--name", module, "--frequency", "always", "--file", path}
		}
		if end := u.command(ctx, output, env, u.opts.CloudInit, args...); end != succeeded {
			end.err = "cloud-init, module " + module + ": " + end.err
			return end
		}
	}
	if !slices.Contains(modules, runcmd) {
		return succeeded
	}
	defer func() { // it may hold what is secret in the blob
		if err := os.Remove(u.opts.Runcmd); err != nil && !errors.Is(err, fs.ErrNotExist) {
			output.note("nstance-agent: commands of the cloud-config were not removed: %v", err)
		}
	}()
	end := u.command(ctx, output, env, u.opts.Runcmd)
	if end != succeeded {
		end.err = "runcmd: " + end.err
	}
	return end
}
