package release

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Version is what a release is made of and called.
type Version struct {
	Name    string    // v1.2.3, or what git describe says
	Commit  string    // in full
	Created time.Time // of the commit
}

var plain = regexp.MustCompile(`^v?([0-9]+\.[0-9]+\.[0-9]+)(?:-([0-9A-Za-z.-]+))?$`)

// Package is the version as package managers order it: a pre-release comes before its
// release, and a build without a tag before all releases, in the order of its commits.
func (v Version) Package() string {
	if parts := plain.FindStringSubmatch(v.Name); parts != nil {
		if parts[2] == "" {
			return parts[1]
		}
		return parts[1] + "~" + strings.ReplaceAll(parts[2], "-", ".")
	}
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return '.'
		}
		return r
	}, v.Name)
	return fmt.Sprintf("0.0.0~%s.%s", v.Created.UTC().Format("20060102150405"), name)
}

// File is one file of an archive or a package.
type File struct {
	From string // where it is; empty: Data is its content
	Data []byte
	To   string // where it goes, without a leading slash
	Mode int64
	Conf bool // it belongs to the administrator once it is installed
}

// Package is one package of a package manager.
type Package struct {
	Name, About string
	Files       []File
	Unit        string // that is restarted after an upgrade, and stopped and disabled before a removal; empty: none
	Beside      string // a unit that starts what the package installs, and is stopped and disabled with it; empty: none
	Cache       string // folder below /var/cache that goes with a purge; empty: none
	Needs       string // package without which it does not work; empty: none
	Alternative string // what else provides the same and can't be installed beside it; empty: nothing
}

// Providers are the builds of the server.
var Providers = []string{"aws", "gcp", "local", "proxmox"}

// Manifest says which packages there are. Programs lie in programs, units in deploy,
// manual pages and completions in share.
func Manifest(programs, deploy, share string) []Package {
	var all []Package
	for _, p := range Providers {
		name := "nstance-server-" + p
		needs := ""
		if p == "local" {
			needs = "nstance-agent" // its machines run it
		}
		all = append(all, Package{
			Name: name, Needs: needs, About: "server of one shard of Nstance, for the provider " + p,
			Unit: "nstance-server.service", Cache: "nstance", Alternative: "nstance-server",
			Files: append(program(programs, share, name),
				unit(deploy, "nstance-server.service", "/usr/local/bin/nstance-server", "/usr/bin/"+name),
				File{Data: []byte(serverEnv), To: "etc/nstance/server.env", Mode: 0o600, Conf: true}),
		})
	}
	agent := func(name string) File {
		return unit(deploy, name, "/usr/local/bin/", "/usr/bin/")
	}
	all = append(all, Package{
		Name: "nstance-agent", About: "agent of Nstance in each machine",
		Unit: "nstance-agent.service", Beside: "nstance-cluster.path",
		Files: append(program(programs, "", "nstance-agent"),
			agent("nstance-agent.service"), agent("nstance-cluster.service"),
			File{From: deploy + "/systemd/nstance-cluster.path", To: "usr/lib/systemd/system/nstance-cluster.path", Mode: 0o644},
			File{From: deploy + "/leave.d/50-k3s", To: "etc/nstance/leave.d/50-k3s", Mode: 0o755, Conf: true},
			File{From: deploy + "/leave.d/50-kubeadm", To: "etc/nstance/leave.d/50-kubeadm", Mode: 0o755, Conf: true}),
	}, Package{
		Name: "nstance-paver", About: "builds node machines on hosts for Nstance", Unit: "nstance-paver.service",
		Files: append(program(programs, "", "nstance-paver"), agent("nstance-paver.service")),
	}, Package{
		Name: "nstance-admin", About: "command line of Nstance",
		Files: program(programs, share, "nstance-admin"),
	})
	return all
}

// serverEnv is an example in which nothing is set: the server ends with status 2 and is
// not started again until somebody has written what it serves.
const serverEnv = `# What this server serves; see systemctl cat nstance-server. For example:
#NSTANCE_SERVER_ARGS=--id server-1 --shard zone-a --storage s3 --bucket example
#AWS_REGION=us-west-2
`

func program(programs, share, name string) []File {
	files := []File{{From: programs + "/" + name, To: "usr/bin/" + name, Mode: 0o755}}
	if share == "" {
		return files
	}
	return append(files,
		File{From: share + "/completions/" + name + ".bash", To: "usr/share/bash-completion/completions/" + name, Mode: 0o644},
		File{From: share + "/completions/" + name + ".zsh", To: "usr/share/zsh/vendor-completions/_" + name, Mode: 0o644},
		File{From: share + "/completions/" + name + ".fish", To: "usr/share/fish/vendor_completions.d/" + name + ".fish", Mode: 0o644},
		File{From: share + "/man/" + name, To: "usr/share/man/man1", Mode: 0o644}) // a folder: all pages in it
}

// unit is a unit whose programs are where packages have them.
func unit(deploy, name, from, to string) File {
	return File{From: deploy + "/systemd/" + name + "\x00" + from + "\x00" + to, To: "usr/lib/systemd/system/" + name, Mode: 0o644}
}
