package render

import (
	"fmt"
	"net/url"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// sandboxImage is the image that holds the namespaces of a Pod.
const sandboxImage = "registry.k8s.io/pause:3.10"

// containerd writes the container runtime's unit and configuration. A file of the template may
// take the place of the configuration.
func (r *renderer) containerd(kubelet *yaml.Node) {
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	// Containerd 1 knows this version of the form, and containerd 2 reads it too.
	r.slot(containerdConfig, 0o644, fmt.Sprintf(`version = 2
imports = ["/etc/containerd/conf.d/*.toml"]

[%[1]s]
  sandbox_image = "%[2]s"

  [%[1]s.cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"

  [%[1]s.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [%[1]s.containerd.runtimes.runc.options]
      SystemdCgroup = %[3]t

  [%[1]s.registry]
    config_path = "%[4]s"
`, cri, sandboxImage, cgroupDriver(kubelet) == "systemd", containerdCerts))
	r.slot(unitDir+"/containerd.service", 0o644, `[Unit]
Description=Container runtime
Documentation=https://containerd.io/docs/
After=network.target dbus.service
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=containerd
Restart=always
RestartSec=5
Delegate=yes
KillMode=process
OOMScoreAdjust=-999
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
`)
	r.enable("containerd.service", "multi-user.target.wants")
	r.slot("/etc/crictl.yaml", 0o644, "runtime-endpoint: unix://"+ContainerdSocket+"\nimage-endpoint: unix://"+ContainerdSocket+"\n")
}

// registries writes where the images of each registry are fetched from: its mirrors in order,
// then the registry itself. Certificates are always verified.
func (r *renderer) registries() {
	seen := map[string]bool{}
	for i, registry := range r.t.GetMachine().GetRegistries() {
		field := fmt.Sprintf("machine.registries[%d]", i)
		host := registry.GetHost()
		switch {
		case !registryHost.MatchString(host) || strings.Contains(host, ".."):
			r.problem(field+".host", "%q is not the host of a registry such as registry.example.com:5000", host)
			continue
		case seen[host]:
			r.problem(field+".host", "%q is given twice", host)
			continue
		}
		seen[host] = true
		dir := path.Join(containerdCerts, host)
		var text strings.Builder
		for j, mirror := range registry.GetMirrors() {
			at := fmt.Sprintf("%s.mirrors[%d]", field, j)
			ca := ""
			if bundle := mirror.GetCaBundle(); bundle != "" {
				if err := certificates(bundle); err != nil {
					r.problem(at+".caBundle", "%v", err)
				}
				ca = path.Join(dir, fmt.Sprintf("mirror-%d.crt", j+1))
				r.slot(ca, 0o644, lineEnded(bundle))
			}
			r.mirror(&text, at+".url", mirror, ca)
		}
		if text.Len() > 0 {
			r.slot(path.Join(dir, "hosts.toml"), 0o644, text.String())
		}
	}
}

// mirror writes one mirror of a registry.
func (r *renderer) mirror(text *strings.Builder, field string, mirror *nstancev1.MachineMirror, ca string) {
	address := mirror.GetUrl()
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		r.problem(field, "must be an address such as https://mirror.example.com: the certificate of a mirror is always verified")
		return
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || !printable.MatchString(address) || strings.ContainsAny(address, `"\`):
		// It is not repeated: a password may be in it.
		r.problem(field, "must be a host and a path alone")
		return
	case hasParent(u.Path):
		r.problem(field, "%q must not contain ..", address)
		return
	}
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	fmt.Fprintf(text, "[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", address)
	if ca != "" {
		fmt.Fprintf(text, "  ca = %q\n", ca)
	}
	if strings.HasPrefix(u.Path+"/", "/v2/") {
		// The address is that of the API itself, as for a mirror of several registries.
		text.WriteString("  override_path = true\n")
	}
}
