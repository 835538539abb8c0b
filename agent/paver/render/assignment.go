package render

import (
	"net/url"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// assignment checks what all parts take for granted.
func (r *renderer) assignment() {
	if r.t == nil {
		r.problem("template", "is required")
		return
	}
	if !machineName.MatchString(r.host.Machine) {
		r.problem("machine name", "%q is not the name of a machine", r.host.Machine)
	}
	if len(r.a.GetNodeName()) > 253 || !subdomain.MatchString(r.a.GetNodeName()) {
		r.problem("nodeName", "%q is not the name of a Node", r.a.GetNodeName())
	}
	if id := r.a.GetProviderId(); len(id) > 512 || !printable.MatchString(id) {
		r.problem("providerID", "%q must be at most 512 characters without blanks", id)
	}
	if r.a.GetEpoch() < 1 && r.a.GetMode() != nstancev1.MachineMode_MACHINE_MODE_PREBUILD {
		r.problem("epoch", "%d must be at least 1", r.a.GetEpoch())
	}
	c := r.a.GetConfiguration()
	if len(c.GetName()) > 50 || !label.MatchString(c.GetName()) {
		r.problem("configuration.name", "%q is not the name of a MachineConfiguration", c.GetName())
	}
	if c.GetVersion() < 1 {
		r.problem("configuration.version", "%d must be at least 1", c.GetVersion())
	}
	if !digest.MatchString(c.GetHash()) {
		r.problem("configuration.hash", "%q must be sha256: and 64 hexadecimal digits", c.GetHash())
	}
	if v := r.t.GetKubernetes().GetVersion(); len(v) > 64 || !version.MatchString(v) {
		r.problem("kubernetes.version", "%q is not a version such as v1.36.3", v)
	}
	if r.t.GetMachine().GetNetwork() == nstancev1.MachineNetwork_MACHINE_NETWORK_VETH {
		r.problem("machine.network", "Veth is not supported: use Host")
	}
	if e, err := url.Parse(r.a.GetApiServer().GetEndpoint()); err != nil || e.Scheme != "https" || e.Host == "" || e.User != nil || e.RawQuery != "" || e.Fragment != "" {
		r.problem("apiServer.endpoint", "%q is not the address of an API server such as https://api.example.com:6443", r.a.GetApiServer().GetEndpoint())
	}
	if err := certificates(r.a.GetApiServer().GetCaBundle()); err != nil {
		r.problem("apiServer.caBundle", "%v", err)
	}
}
