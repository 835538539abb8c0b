package gcpfake

import "strings"

// MachineType is what a zone offers.
type MachineType struct {
	Name     string
	Arch     string // X86_64 or ARM64
	CPUs     int
	MemoryMB int
	Shared   bool   // shared-core
	GPU      string // accelerator type; empty: none
	GPUs     int
}

// The architectures in the API's words.
const (
	x86 = "X86_64"
	arm = "ARM64"
)

// Catalogue is a choice of machine types as of
// https://docs.cloud.google.com/compute/docs/general-purpose-machines and
// https://docs.cloud.google.com/compute/docs/gpus.
var Catalogue = []MachineType{
	{Name: "e2-micro", Arch: x86, CPUs: 2, MemoryMB: 1024, Shared: true},
	{Name: "e2-small", Arch: x86, CPUs: 2, MemoryMB: 2048, Shared: true},
	{Name: "e2-medium", Arch: x86, CPUs: 2, MemoryMB: 4096, Shared: true},
	{Name: "e2-standard-2", Arch: x86, CPUs: 2, MemoryMB: 8192},
	{Name: "e2-standard-4", Arch: x86, CPUs: 4, MemoryMB: 16384},
	{Name: "n2-standard-2", Arch: x86, CPUs: 2, MemoryMB: 8192},
	{Name: "n2-standard-8", Arch: x86, CPUs: 8, MemoryMB: 32768},
	{Name: "n4-standard-2", Arch: x86, CPUs: 2, MemoryMB: 8192},
	{Name: "n4a-standard-2", Arch: arm, CPUs: 2, MemoryMB: 8192},
	{Name: "t2a-standard-1", Arch: arm, CPUs: 1, MemoryMB: 4096},
	{Name: "t2a-standard-4", Arch: arm, CPUs: 4, MemoryMB: 16384},
	{Name: "c4a-standard-2", Arch: arm, CPUs: 2, MemoryMB: 8192},
	{Name: "g2-standard-4", Arch: x86, CPUs: 4, MemoryMB: 16384, GPU: "nvidia-l4", GPUs: 1},
	{Name: "a2-highgpu-1g", Arch: x86, CPUs: 12, MemoryMB: 87040, GPU: "nvidia-tesla-a100", GPUs: 1},
}

// Image is a boot image of some project.
type Image struct {
	Project, Name, Family string
	Arch                  string // X86_64 or ARM64
}

// DefaultImages are public images.
var DefaultImages = []Image{
	{"debian-cloud", "debian-13-trixie-v20251014", "debian-13", x86},
	{"debian-cloud", "debian-13-trixie-arm64-v20251014", "debian-13-arm64", arm},
	{"debian-cloud", "debian-12-bookworm-v20251014", "debian-12", x86},
	{"debian-cloud", "debian-12-bookworm-arm64-v20251014", "debian-12-arm64", arm},
	{"ubuntu-os-cloud", "ubuntu-2404-noble-amd64-v20251014", "ubuntu-2404-lts-amd64", x86},
	{"ubuntu-os-cloud", "ubuntu-2404-noble-arm64-v20251014", "ubuntu-2404-lts-arm64", arm},
}

// typeOf finds the machine type that an instance in a zone names.
func (c *Cloud) typeOf(zone, ref, field string) (MachineType, error) {
	_, path := c.below(ref)
	name, ok := strings.CutPrefix(path, "zones/"+zone+"/machineTypes/")
	if !ok {
		return MachineType{}, invalidField(field, ref, "The URL is malformed, or names another zone than '%s'.", zone)
	}
	for _, t := range c.opts.Types {
		if t.Name == name {
			return t, nil
		}
	}
	return MachineType{}, invalidField(field, ref, "Machine type with name '%s' does not exist in zone '%s'.", name, zone)
}

// imageOf finds the image that a disk names, by its name or its family.
func (c *Cloud) imageOf(ref, field string) (Image, error) {
	project, path := c.below(ref)
	name, ok := strings.CutPrefix(path, "global/images/")
	if !ok {
		return Image{}, invalidField(field, ref, "The URL is malformed.")
	}
	family, isFamily := strings.CutPrefix(name, "family/")
	for _, im := range c.opts.Images {
		if im.Project == project && (isFamily && im.Family == family || !isFamily && im.Name == name) {
			return im, nil
		}
	}
	if isFamily {
		return Image{}, notFound("projects/" + project + "/" + path)
	}
	return Image{}, invalidField(field, ref, "The referenced image resource cannot be found.")
}
