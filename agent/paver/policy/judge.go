package policy

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"nstance.dev/agent/paver/render"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Reason of every refusal, as operations and problems of a host have it.
const Reason = "RefusedByHost"

// Refusal says what a policy does not allow.
type Refusal struct {
	// Field of the template that asks for it, such as `machine.binds[0].source`.
	Field string
	// By is the member of the policy that refuses it, such as `binds.allow`.
	By string
	// Message for people.
	Message string
	// Blocks: nothing may be built. Otherwise the part is left out.
	Blocks bool
}

// Error says all of it.
func (r Refusal) Error() string {
	return fmt.Sprintf("%s: %s: %s (%s of the machine policy)", Reason, r.Field, r.Message, r.By)
}

// Host is what a judgement has to know of the host.
type Host struct {
	// Paths of the host that exist, and what is left of each when symbolic links are followed: a
	// link must not lead to where the policy does not. See render.Host.
	Paths map[string]string
	// Users are those of the host whom the template names; nil: it is not known who exists.
	Users []string
	// Verifies: signatures are verified where images are fetched. Otherwise nothing is fetched for
	// a policy that asks for them.
	Verifies bool
}

// Operation says whether an operation may be carried out; nil: it may.
func (p Policy) Operation(name string) *Refusal {
	if slices.Contains(p.Allow.Operations, name) {
		return nil
	}
	return &Refusal{Field: "operationName", By: "allow.operations", Message: fmt.Sprintf("operation %.80q is not allowed on this host", name), Blocks: true}
}

// Judge returns what of an assignment is not allowed, in the order of the template. Without a
// refusal that blocks it may be carried out.
func (p Policy) Judge(a *nstancev1.MachineAssignment, host Host) []Refusal {
	if !p.Allow.Pave {
		return []Refusal{{Field: "mode", By: "allow.pave", Message: "node machines are not allowed on this host", Blocks: true}}
	}
	if a.GetMode() == nstancev1.MachineMode_MACHINE_MODE_RESET {
		return nil
	}
	t := a.GetTemplate()
	all := append(p.image(t.GetImage(), host), p.artifacts(t.GetKubernetes().GetArtifacts())...)
	for i, b := range t.GetMachine().GetBinds() {
		all = append(all, p.bind(fmt.Sprintf("machine.binds[%d].source", i), b, host)...)
	}
	all = append(all, p.devices(t, host)...)
	for i, u := range t.GetHost().GetSshKeys() {
		var message string
		switch {
		case !slices.Contains(p.SSH.Users, u.GetUser()):
			message = "keys of user %.40q may not be set on this host; its keys are left out"
		case host.Users != nil && !slices.Contains(host.Users, u.GetUser()):
			message = "user %.40q does not exist on this host; its keys are left out"
		default:
			continue
		}
		all = append(all, Refusal{Field: fmt.Sprintf("host.sshKeys[%d].user", i), By: "ssh.users", Message: fmt.Sprintf(message, u.GetUser())})
	}
	return all
}

// image judges where a root file system comes from.
func (p Policy) image(image *nstancev1.MachineImage, host Host) []Refusal {
	var all []Refusal
	refuse := func(field, by, format string, args ...any) {
		all = append(all, Refusal{Field: "image." + field, By: by, Message: fmt.Sprintf(format, args...), Blocks: true})
	}
	if len(p.Images.PublicKeys) > 0 && !host.Verifies {
		refuse("type", "images.publicKeys", "signatures of images cannot be verified on this host")
	}
	switch source := image.GetSource().(type) {
	case *nstancev1.MachineImage_Oci:
		if ref := reference(source.Oci.GetReference()); !p.Images.Allows(ref) {
			refuse("oci.reference", "images.prefixes", "%.200q is not allowed on this host", ref)
		}
		if p.Images.RequireDigest && source.Oci.GetDigest() == "" {
			refuse("oci.digest", "images.requireDigest", "is required on this host")
		}
	case *nstancev1.MachineImage_Archive:
		field, address := "archive.url", source.Archive.GetUrl()
		if address == "" {
			field, address = "archive.storageKey", StorageAddress(source.Archive.GetStorageKey())
		}
		if !p.Images.Allows(address) {
			refuse(field, "images.prefixes", "%.200q is not allowed on this host", plain(address))
		}
		if len(p.Images.PublicKeys) > 0 {
			refuse("type", "images.publicKeys", "an archive has no signature; this host needs one")
		}
	case *nstancev1.MachineImage_Debootstrap:
		d := source.Debootstrap
		if len(p.Images.Prefixes) > 0 && (d.GetMirror() == "" || !p.Images.Allows(d.GetMirror())) {
			refuse("debootstrap.mirror", "images.prefixes", "%.200q is not allowed on this host", plain(d.GetMirror()))
		}
		if p.Images.RequireDigest {
			refuse("type", "images.requireDigest", "what debootstrap installs has no digest; this host needs one")
		}
		if len(p.Images.PublicKeys) > 0 {
			refuse("type", "images.publicKeys", "what debootstrap installs has no signature; this host needs one")
		}
		if k := d.GetKeyring(); k != "" && !isKeyring(k) {
			refuse("debootstrap.keyring", "images", "%.200q must be below one of %s", k, strings.Join(keyrings, ", "))
		}
	default:
		refuse("type", "images", "names no image")
	}
	return all
}

// keyrings are the directories of keyrings that packages and administrators of the host write.
// Elsewhere a server could have put one.
var keyrings = []string{"/usr/share/keyrings", "/etc/apt/keyrings", "/etc/apt/trusted.gpg.d"}

func isKeyring(name string) bool {
	return slices.ContainsFunc(keyrings, func(dir string) bool { return path.Clean(name) == name && render.Within(name, dir) })
}

// StorageAddress is the address by which policies know an archive in the object storage of the
// servers.
func StorageAddress(key string) string { return "storage:/" + key }

// plain is an address as it may be repeated: a query may hold a signature, and a user a password.
func plain(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery, u.ForceQuery, u.Fragment = nil, "", false, ""
	return u.String()
}

// reference is an image's reference with its registry: one without a host is of Docker Hub.
func reference(ref string) string {
	host, rest, found := strings.Cut(ref, "/")
	switch {
	case !found:
		return "docker.io/library/" + ref
	case strings.ContainsAny(host, ".:") || host == "localhost":
		return host + "/" + rest
	default:
		return "docker.io/" + ref
	}
}

// artifacts judges where programs come from: they run with the same rights as those of the
// image.
func (p Policy) artifacts(of *nstancev1.MachineArtifacts) []Refusal {
	var all []Refusal
	for _, a := range []struct {
		name string
		*nstancev1.MachineArtifact
	}{
		{"kubelet", of.GetKubelet()}, {"containerd", of.GetContainerd()}, {"runc", of.GetRunc()},
		{"cniPlugins", of.GetCniPlugins()}, {"crictl", of.GetCrictl()},
	} {
		field := "kubernetes.artifacts." + a.name + ".url"
		switch {
		case a.MachineArtifact == nil:
		case !p.Images.Allows(a.GetUrl()):
			all = append(all, Refusal{field, "images.prefixes", fmt.Sprintf("%.200q is not allowed on this host", plain(a.GetUrl())), true})
		case len(p.Images.PublicKeys) > 0 && len(p.Images.Prefixes) == 0:
			// Otherwise it would take no signature to run another kubelet.
			all = append(all, Refusal{field, "images.publicKeys", "an artifact has no signature; put the program into the image, or its address into images.prefixes", true})
		}
	}
	return all
}

// Allows says whether a reference or an address begins with one of the prefixes. A prefix
// without a scheme is good for references and for addresses that are fetched over TLS.
func (i Images) Allows(address string) bool {
	if len(i.Prefixes) == 0 {
		return true
	}
	if strings.Contains(address+"/", "/../") {
		return false
	}
	if u, err := url.Parse(address); err == nil && u.Host != "" && (u.User != nil || strings.Contains(u.Path+"/", "/../")) {
		return false
	}
	return slices.ContainsFunc(i.Prefixes, func(prefix string) bool {
		return strings.HasPrefix(address, prefix) || strings.HasPrefix(address, "https://"+prefix)
	})
}

// protected are the directories of the paver and the agent. What is in them decides what
// root does on the host, so no machine gets to see it, with one exception: files that the
// server has pushed.
var protected = []string{"/etc/nstance-agent", "/var/lib/nstance-paver", "/run/nstance", "/var/lib/machines", "/opt/nstance-agent"}

// pushed is where an agent puts the files that its server pushes.
const pushed = "/opt/nstance-agent/recv"

func (p Policy) bind(field string, b *nstancev1.MachineBind, host Host) []Refusal {
	refuse := func(by, format string, args ...any) []Refusal {
		return []Refusal{{Field: field, By: by, Message: fmt.Sprintf(format, args...), Blocks: true}}
	}
	source := path.Clean(b.GetSource())
	for _, name := range ends(source, host) {
		switch {
		case !p.Binds.allows(name):
			return refuse("binds.allow", "%.200q may not be bound on this host", name)
		case slices.ContainsFunc(protected, func(dir string) bool { return render.Within(name, dir) }) && !render.Within(name, pushed):
			return refuse("binds", "%.200q belongs to the paver and the agent", name)
		case slices.ContainsFunc(protected, func(dir string) bool { return render.Within(dir, name) }):
			return refuse("binds", "%.200q holds what belongs to the paver and the agent", name)
		}
	}
	return nil
}

// ends are a path and, if that differs, what is left when links are followed.
func ends(name string, host Host) []string {
	if resolved := host.Paths[name]; resolved != "" && resolved != name {
		return []string{name, resolved}
	}
	return []string{name}
}

// devices judges the devices that the host has; a pattern that finds none asks for nothing.
func (p Policy) devices(t *nstancev1.MachineTemplate, host Host) []Refusal {
	var all []Refusal
	for i, d := range t.GetMachine().GetDevices() {
		names := []string{path.Clean(d)}
		if strings.ContainsAny(d, `*?[\`) {
			names = nil
			for name := range host.Paths {
				if ok, err := path.Match(path.Clean(d), name); ok && err == nil {
					names = append(names, name)
				}
			}
			slices.Sort(names)
		}
		for _, name := range names {
			if at := slices.IndexFunc(ends(name, host), func(end string) bool { return !p.Devices.allows(end) }); at >= 0 {
				all = append(all, Refusal{
					Field: fmt.Sprintf("machine.devices[%d]", i), By: "devices.allow", Blocks: true,
					Message: fmt.Sprintf("%.200q may not be used on this host", ends(name, host)[at]),
				})
				break
			}
		}
	}
	return all
}
