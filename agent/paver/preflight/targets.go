package preflight

import (
	"net/url"
	"strings"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/render"
)

// For returns what has to be looked at for an assignment, and what the host must have for it. Of a
// nil one that is what every machine needs. Mode, AllowDegraded and Trees are the caller's to set.
func For(a *nstancev1.MachineAssignment) (Targets, Wants) {
	modules := render.Modules(a.GetTemplate())
	t := Targets{
		APIServer: a.GetApiServer().GetEndpoint(), CABundle: a.GetApiServer().GetCaBundle(),
		ImageSources: imageSources(a.GetTemplate()), Modules: modules,
	}
	return t, Wants{SwapAllowed: render.SwapAllowed(a.GetTemplate()), Modules: modules}
}

// dockerHub is where the images of names without a host are.
const dockerHub = "registry-1.docker.io"

// imageSources are the addresses of which one must answer for an image to be fetched, the mirrors of
// its registry first. None: the image comes from the object storage of the servers, or from
// debootstrap's own mirror.
func imageSources(t *nstancev1.MachineTemplate) []Source {
	switch source := t.GetImage().GetSource().(type) {
	case *nstancev1.MachineImage_Oci:
		host, _, named := strings.Cut(source.Oci.GetReference(), "/")
		if !named || !strings.ContainsAny(host, ".:") && host != "localhost" {
			host = "docker.io"
		}
		var sources []Source
		for _, registry := range t.GetMachine().GetRegistries() {
			for _, mirror := range registry.GetMirrors() {
				if address := origin(mirror.GetUrl()); registry.GetHost() == host && address != "" {
					sources = append(sources, Source{address, mirror.GetCaBundle()})
				}
			}
		}
		if host == "docker.io" {
			host = dockerHub
		}
		return append(sources, Source{Address: "https://" + host + "/v2/"})
	case *nstancev1.MachineImage_Archive:
		return one(origin(source.Archive.GetUrl()))
	case *nstancev1.MachineImage_Debootstrap:
		return one(origin(source.Debootstrap.GetMirror()))
	}
	return nil
}

func one(address string) []Source {
	if address == "" {
		return nil
	}
	return []Source{{Address: address}}
}

// origin is an address without path and query: that its host answers is enough, and a query may be
// secret.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}).String()
}
