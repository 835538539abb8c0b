package render

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// requiredModules are what Pods' file systems and networks need.
var requiredModules = []string{"overlay", "br_netfilter"}

// requiredSysctls are what a kubelet does not start without, and what its network needs. The
// machine cannot set them: it sees the kernel's parameters, but not to change them.
var requiredSysctls = map[string]string{
	"kernel.keys.root_maxbytes":           "25000000",
	"kernel.keys.root_maxkeys":            "1000000",
	"kernel.panic":                        "10",
	"kernel.panic_on_oops":                "1",
	"net.bridge.bridge-nf-call-ip6tables": "1",
	"net.bridge.bridge-nf-call-iptables":  "1",
	"net.ipv4.ip_forward":                 "1",
	"net.ipv6.conf.all.forwarding":        "1",
	"vm.overcommit_memory":                "1",
	"vm.panic_on_oom":                     "0",
}

// sysctlName has a dot first: where a slash came first, slashes and dots would change places.
var sysctlName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]*\.[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$`)

// withoutIPv6 is the parameter that a kernel without IPv6 does not have.
const withoutIPv6 = "net.ipv6.conf.all.forwarding"

// commands are parameters that name a program which the kernel runs as root. Setting one is
// running a command.
var commands = []string{"fs.binfmt_misc", "kernel.core_pattern", "kernel.hotplug", "kernel.modprobe", "kernel.poweroff_cmd", "kernel.usermodehelper"}

// kernel writes the parameters and modules of the host's kernel.
func (r *renderer) kernel() {
	settings := maps.Clone(requiredSysctls)
	for _, name := range slices.Sorted(maps.Keys(r.t.GetHost().GetSysctls())) {
		field := "host.sysctls." + name
		value := r.t.GetHost().GetSysctls()[name]
		switch {
		case len(name) > 256 || !sysctlName.MatchString(name):
			r.problem("host.sysctls", "%q is not the name of a parameter such as net.ipv4.ip_forward", name)
		case slices.ContainsFunc(commands, func(c string) bool { return name == c || strings.HasPrefix(name, c+".") }):
			r.problem(field, "makes the kernel run a command: set it in the image or user data of the host")
		case len(value) > 1024 || strings.TrimSpace(value) == "":
			r.problem(field, "must be 1 to 1024 characters")
		case r.line(field, strings.ReplaceAll(value, "\t", " ")):
			settings[name] = strings.TrimSpace(value)
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		optional := name == withoutIPv6
		r.plan.Sysctls = append(r.plan.Sysctls, Setting{Name: name, Path: sysctlPath(name), Value: settings[name], Optional: optional})
		if optional {
			text.WriteString("-")
		}
		text.WriteString(name + " = " + settings[name] + "\n")
	}
	r.onHost(SysctlFile, text.String())

	for i, module := range r.t.GetHost().GetKernelModules() {
		if !kernelModule.MatchString(module) {
			r.problem(fmt.Sprintf("host.kernelModules[%d]", i), "%q is not the name of a module", module)
		}
	}
	r.plan.Modules = Modules(r.t)
	r.onHost(ModulesFile, strings.Join(r.plan.Modules, "\n")+"\n")
}

// Modules are those of the kernel that the machine of a template needs, in the order in which they
// are loaded: first those that every machine needs.
func Modules(t *nstancev1.MachineTemplate) []string {
	modules := slices.Clone(requiredModules)
	for _, module := range t.GetHost().GetKernelModules() {
		if kernelModule.MatchString(module) && !slices.Contains(modules, module) {
			modules = append(modules, module)
		}
	}
	return modules
}

// sysctlPath is the file of a parameter below /proc/sys. A slash in the name stands for a dot
// in the name of a file, such as that of an interface.
func sysctlPath(name string) string {
	return strings.Map(func(c rune) rune {
		switch c {
		case '.':
			return '/'
		case '/':
			return '.'
		}
		return c
	}, name)
}

// packages keeps upgrades of the host's packages from restarting what a running machine hangs
// on. Hosts without these programs get no file for them.
func (r *renderer) packages() {
	if r.there(needrestartDir) {
		r.onHost(needrestart, `$nrconf{override_rc}{qr(^systemd-nspawn@)} = 0;
$nrconf{override_rc}{qr(^systemd-machined)} = 0;
$nrconf{override_rc}{qr(^nstance-paver)} = 0;
1;
`)
	}
	if r.there(aptDir) {
		r.onHost(upgrades, `Unattended-Upgrade::Package-Blacklist { "systemd-container$"; };`+"\n")
	}
}

// ssh writes the keys of those users of the host that may have some.
func (r *renderer) ssh() {
	keys := map[string][]string{}
	for i, u := range r.t.GetHost().GetSshKeys() {
		field := fmt.Sprintf("host.sshKeys[%d]", i)
		if !hostUser.MatchString(u.GetUser()) {
			r.problem(field+".user", "%q is not the name of a user", u.GetUser())
			continue
		}
		for j, key := range u.GetKeys() {
			if !isPublicKey(key) || !r.line(fmt.Sprintf("%s.keys[%d]", field, j), key) {
				r.problem(fmt.Sprintf("%s.keys[%d]", field, j), "must be a public key: type, base64 and a comment, without options")
			}
		}
		if slices.Contains(r.host.SSHUsers, u.GetUser()) {
			keys[u.GetUser()] = append(keys[u.GetUser()], u.GetKeys()...)
		}
	}
	if len(keys) == 0 {
		return
	}
	for user, list := range keys {
		// Readable for its user, as whom sshd reads it, and changeable for root alone.
		r.onHost(SSHDir+"/"+user, strings.Join(list, "\n")+"\n")
	}
	// For them alone: what the host's administrator has set for others stays in force.
	r.onHost(SSHDropIn, "Match User "+strings.Join(slices.Sorted(maps.Keys(keys)), ",")+
		"\n\tAuthorizedKeysFile .ssh/authorized_keys "+SSHDir+"/%u\nMatch all\n")
}

var publicKey = regexp.MustCompile(`^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+={0,2})( .*)?$`)

// PublicKeys says what is wrong with the keys of a user of the host, in the name or in one of the keys.
func PublicKeys(user string, keys []string) error {
	if !hostUser.MatchString(user) {
		return fmt.Errorf("%.63q is not the name of a user", user)
	}
	for i, key := range keys {
		if !isPublicKey(key) || strings.ContainsFunc(key, unicode.IsControl) {
			return fmt.Errorf("key %d of user %s must be a public key: type, base64 and a comment, without options", i+1, user)
		}
	}
	return nil
}

// isPublicKey says whether a line is a public key without options: one whose first word is its
// type, and whose base64 begins with the same type.
func isPublicKey(line string) bool {
	parts := publicKey.FindStringSubmatch(line)
	if parts == nil || len(line) > 1024 {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(blob) < 4 {
		return false
	}
	size := uint64(binary.BigEndian.Uint32(blob))
	return uint64(len(blob)) > 4+size && string(blob[4:4+size]) == parts[1]
}
