package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Packager makes packages with nfpm.
type Packager struct {
	Nfpm    string // the program
	Version Version
	Out     string // directory of the packages
}

// Make makes one package for one architecture, in the form deb or rpm.
func (p Packager) Make(ctx context.Context, pkg Package, arch, form string) (err error) {
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	config, err := p.config(work, pkg, arch)
	if err != nil {
		return fmt.Errorf("package %s: %w", pkg.Name, err)
	}
	data, err := json.Marshal(config) // YAML reads it too
	if err != nil {
		return err
	}
	if err := Write(work, "nfpm.yaml", data); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Out, 0o755); err != nil {
		return err
	}
	target := filepath.Join(p.Out, fmt.Sprintf("%s_%s_%s.%s", pkg.Name, p.Version.Package(), arch, form))
	cmd := exec.CommandContext(ctx, p.Nfpm, "package", "--config", filepath.Join(work, "nfpm.yaml"), "--packager", form, "--target", target)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", p.Version.Created.Unix()))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("package %s for %s as %s: %w:\n%s", pkg.Name, arch, form, err, out)
	}
	return nil
}

type object map[string]any

// config is what nfpm is told. All content is laid into work first, with the time of the
// release.
func (p Packager) config(work string, pkg Package, arch string) (object, error) {
	created := p.Version.Created.UTC().Format(time.RFC3339)
	files, err := resolve(pkg.Files)
	if err != nil {
		return nil, err
	}
	var contents []object
	for _, f := range files {
		if err := Write(work, f.To, f.Data); err != nil {
			return nil, err
		}
		c := object{
			"src": filepath.Join(work, f.To), "dst": "/" + f.To,
			"file_info": object{"mode": f.Mode, "owner": "root", "group": "root", "mtime": created},
		}
		if f.Conf {
			c["type"] = "config|noreplace"
		}
		contents = append(contents, c)
	}
	config := object{
		"name": pkg.Name, "arch": arch, "platform": "linux", "version": p.Version.Package(), "version_schema": "none",
		"section": "admin", "priority": "optional", "maintainer": "Nstance <maintainers@nstance.dev>",
		"description": pkg.About, "homepage": "https://nstance.dev", "license": "Apache-2.0",
		"mtime": created, "contents": contents,
		"rpm": object{"buildhost": "localhost"},
	}
	if pkg.Needs != "" {
		config["depends"] = []string{pkg.Needs}
	}
	if pkg.Alternative != "" {
		config["provides"], config["conflicts"] = []string{pkg.Alternative}, []string{pkg.Alternative}
	}
	scripts := object{}
	for name, text := range scriptsOf(pkg) {
		if err := Write(work, name+".sh", []byte(text)); err != nil {
			return nil, err
		}
		scripts[name] = filepath.Join(work, name+".sh")
	}
	if len(scripts) > 0 {
		config["scripts"] = scripts
	}
	return config, nil
}

// scriptsOf are what package managers run. Debian's say what happens, RPM's how many of the
// package there will be. A first installation starts nothing: nothing is configured yet.
func scriptsOf(pkg Package) map[string]string {
	if pkg.Unit == "" {
		return nil
	}
	fill := strings.NewReplacer("@UNIT@", pkg.Unit, "@ALL@", strings.TrimSpace(pkg.Unit+" "+pkg.Beside), "@CACHE@", pkg.Cache)
	all := map[string]string{
		"postinstall": fill.Replace(postinstall),
		"preremove":   fill.Replace(preremove),
		"postremove":  fill.Replace(postremove),
	}
	if pkg.Cache != "" {
		all["postremove"] += fill.Replace(purge)
	}
	return all
}

const postinstall = `#!/bin/sh
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1" in
configure) [ -z "$2" ] || systemctl try-restart @UNIT@ ;;
2) systemctl try-restart @UNIT@ ;;
esac
`

const preremove = `#!/bin/sh
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove | 0) systemctl disable --now @ALL@ ;;
esac
`

const postremove = `#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
`

// purge removes what the server can make anew from the bucket, by name. Buckets, machines
// and keys belong to somebody, wherever they are.
const purge = `if [ "$1" = purge ]; then
	for dir in /var/cache/private/@CACHE@ /var/cache/@CACHE@; do
		[ -d "$dir" ] && [ ! -L "$dir" ] || continue
		rm -rf "$dir/db" "$dir/leases" "$dir/lock"
		rmdir "$dir" 2>/dev/null || :
	done
	[ ! -L /var/cache/@CACHE@ ] || [ -e /var/cache/@CACHE@ ] || rm -f /var/cache/@CACHE@
fi
`
