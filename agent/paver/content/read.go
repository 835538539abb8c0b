package content

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/image"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// source reads where a root file system comes from. missing names a pull secret that is
// wanted and has not arrived. Storage is the address at which the servers' object storage can be read;
// empty: this host does not reach it.
func source(a *nstancev1.MachineAssignment, c *nstancev1.MachineCredential, storage string) (src image.Source, missing string, err error) {
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
		src.Archive = &image.Archive{URL: of.Archive.GetUrl(), SHA256: of.Archive.GetSha256()}
		if src.Archive.URL == "" {
			if src.Archive.URL, err = stored(storage, of.Archive.GetStorageKey()); err != nil {
				return src, "", fmt.Errorf("%w: image.archive.storageKey: %w", image.ErrInvalid, err)
			}
		}
	case *nstancev1.MachineImage_Debootstrap:
		d := of.Debootstrap
		src.Debootstrap = &image.Debootstrap{
			Suite: d.GetSuite(), Mirror: d.GetMirror(), Variant: d.GetVariant(), Packages: d.GetPackages(), Keyring: d.GetKeyring(),
		}
	}
	return src, missing, nil
}

// stored is the address of an object in the object storage of the servers.
func stored(storage, key string) (string, error) {
	if storage == "" {
		return "", errors.New("this host does not reach the object storage of its servers; start nstance-paver with -storage-url, or set image.archive.url")
	}
	if key == "" || path.IsAbs(key) || path.Clean(key) != key || key == ".." || strings.HasPrefix(key, "../") {
		return "", fmt.Errorf("%.80q is not the key of an object", key)
	}
	base, err := image.Address(storage)
	if err != nil {
		return "", err
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/" + key
	base.RawPath = ""
	return base.String(), nil
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
