package content

import (
	"fmt"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/image"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// source reads where a root file system comes from. missing names a pull secret that is
// wanted and has not arrived.
func source(a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential) (src image.Source, missing string, err error) {
	t := a.GetTemplate()
	switch of := t.GetImage().GetSource().(type) {
	case *nstancev1.MachineImage_Oci:
		src.OCI = &image.OCI{Reference: of.Oci.GetReference(), Digest: of.Oci.GetDigest(), Registries: registries(t.GetMachine())}
		name := of.Oci.GetPullSecret()
		data, ok := c.GetPullSecrets()[name]
		switch {
		case name == "":
		case !ok:
			missing = name
		default:
			if src.OCI.Secret, err = image.ParsePullSecret(data); err != nil {
				return src, "", fmt.Errorf("image.oci.pullSecret %s: %w", name, err)
			}
		}
	case *nstancev1.MachineImage_Archive:
		if of.Archive.GetUrl() == "" {
			return src, "", fmt.Errorf("%w: image.archive.storageKey: this host does not reach the object storage of its servers; set image.archive.url", image.ErrInvalid)
		}
		src.Archive = &image.Archive{URL: of.Archive.GetUrl(), SHA256: of.Archive.GetSha256()}
	case *nstancev1.MachineImage_Debootstrap:
		d := of.Debootstrap
		src.Debootstrap = &image.Debootstrap{
			Suite: d.GetSuite(), Mirror: d.GetMirror(), Variant: d.GetVariant(), Packages: d.GetPackages(), Keyring: d.GetKeyring(),
		}
	}
	return src, missing, nil
}

// registries are those of Pods: the image of the machine comes through the same mirrors.
func registries(m *nstancev1.MachineSettings) (all []image.Registry) {
	for _, r := range m.GetRegistries() {
		registry := image.Registry{Host: r.GetHost()}
		for _, mirror := range r.GetMirrors() {
			registry.Mirrors = append(registry.Mirrors, image.Mirror{URL: mirror.GetUrl(), CABundle: mirror.GetCaBundle()})
		}
		all = append(all, registry)
	}
	return all
}

// want is an artifact that an assignment names.
type want struct {
	name artifact.Name
	file image.File
}

// artifacts are those of an assignment.
func artifacts(a *nstancev1.MachineAssignment) (all []want, err error) {
	of := a.GetTemplate().GetKubernetes().GetArtifacts()
	named := map[artifact.Name]*nstancev1.MachineArtifact{
		artifact.Kubelet: of.GetKubelet(), artifact.Containerd: of.GetContainerd(), artifact.Runc: of.GetRunc(),
		artifact.CNIPlugins: of.GetCniPlugins(), artifact.Crictl: of.GetCrictl(),
	}
	for _, name := range artifact.Names() {
		m := named[name]
		if m == nil {
			continue
		}
		d, err := digest.Parse(m.GetSha256())
		if err != nil {
			return nil, fmt.Errorf("%w: kubernetes.artifacts.%s.sha256: %w", image.ErrInvalid, name, err)
		}
		all = append(all, want{name, image.File{URL: m.GetUrl(), Digest: d}})
	}
	return all, nil
}
