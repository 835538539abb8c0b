package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	nstancev1 "nstance.dev/protos/nstance/v1"

	"nstance.dev/agent/paver/policy"
)

const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func oci(reference, digest string) *nstancev1.MachineImage {
	return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Oci{Oci: &nstancev1.MachineOciImage{Reference: reference, Digest: digest}}}
}

func archive(url, key string) *nstancev1.MachineImage {
	return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{Url: url, StorageKey: key, Sha256: digest}}}
}

func bootstrapped(mirror, keyring string) *nstancev1.MachineImage {
	return &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Debootstrap{Debootstrap: &nstancev1.MachineDebootstrap{Suite: "bookworm", Mirror: mirror, Keyring: keyring}}}
}

func TestJudge_Artifacts(t *testing.T) {
	const prefix = "{allow: {pave: true}, images: {prefixes: [registry.example.com/nodes/, 'https://dl.example.com/']}}"
	signed := `{allow: {pave: true}, images: {publicKeys: ["-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=\n-----END PUBLIC KEY-----\n"]}}`
	for _, tt := range []struct{ name, policy, url, want string }{
		{"any address", "allow: {pave: true}", "http://evil.example.com/kubelet", ""},
		{"a prefix", prefix, "https://dl.example.com/v1.36.3/kubelet", ""},
		{"without TLS", prefix, "http://dl.example.com/v1.36.3/kubelet", "images.prefixes"},
		{"another host", prefix, "https://evil.example.com/kubelet", "images.prefixes"},
		{"no signature", signed, "https://dl.example.com/kubelet", "images.publicKeys"},
		{"no signature, from a place that is named", strings.Replace(signed, "publicKeys", "prefixes: [registry.example.com/nodes/, 'https://dl.example.com/'], publicKeys", 1), "https://dl.example.com/kubelet", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			template := &nstancev1.MachineTemplate{
				Image:      oci("registry.example.com/nodes/gpu", digest),
				Kubernetes: &nstancev1.MachineKubernetes{Artifacts: &nstancev1.MachineArtifacts{Kubelet: &nstancev1.MachineArtifact{Url: tt.url}}},
			}
			var want []string
			if tt.want != "" {
				want = []string{"kubernetes.artifacts.kubelet.url by " + tt.want}
			}
			a := &nstancev1.MachineAssignment{Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE, Template: template}
			if diff := cmp.Diff(want, judged(t, tt.policy, a, policy.Host{Verifies: true})); diff != "" {
				t.Errorf("refusals:\n%s", diff)
			}
		})
	}
}

// judged are the refusals of a policy in YAML, each as `field by blocks`.
func judged(t *testing.T, text string, a *nstancev1.MachineAssignment, host policy.Host) []string {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range p.Judge(a, host) {
		blocks := ", left out"
		if r.Blocks {
			blocks = ""
		}
		all = append(all, r.Field+" by "+r.By+blocks)
		if r.Message == "" || !strings.HasPrefix(r.Error(), "RefusedByHost: "+r.Field+": ") {
			t.Errorf("%q does not say what is wrong", r.Error())
		}
	}
	return all
}

func TestJudge_Mode(t *testing.T) {
	template := &nstancev1.MachineTemplate{Image: oci("registry.example.com/node", digest)}
	for _, tt := range []struct {
		name, policy string
		mode         nstancev1.MachineMode
		want         []string
	}{
		{"no policy", "", nstancev1.MachineMode_MACHINE_MODE_PAVE, []string{"mode by allow.pave"}},
		{"no policy, reset", "", nstancev1.MachineMode_MACHINE_MODE_RESET, []string{"mode by allow.pave"}},
		{"operations alone", "allow: {operations: [reboot]}", nstancev1.MachineMode_MACHINE_MODE_REPAVE, []string{"mode by allow.pave"}},
		{"pave", "allow: {pave: true}", nstancev1.MachineMode_MACHINE_MODE_PAVE, nil},
		{"reset", "allow: {pave: true}", nstancev1.MachineMode_MACHINE_MODE_RESET, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &nstancev1.MachineAssignment{Mode: tt.mode, Template: template}
			if tt.mode == nstancev1.MachineMode_MACHINE_MODE_RESET {
				a.Template = nil
			}
			if diff := cmp.Diff(tt.want, judged(t, tt.policy, a, policy.Host{})); diff != "" {
				t.Errorf("refusals:\n%s", diff)
			}
		})
	}
}

func TestJudge_Images(t *testing.T) {
	const (
		anyImage  = "{allow: {pave: true}, images: {requireDigest: false}}"
		prefix    = "{allow: {pave: true}, images: {prefixes: [registry.example.com/nodes/, 'http://deb.example.com/']}}"
		hub       = "{allow: {pave: true}, images: {prefixes: [docker.io/library/]}}"
		storage   = "{allow: {pave: true}, images: {prefixes: ['storage:/images/']}}"
		debian    = "{allow: {pave: true}, images: {prefixes: ['http://deb.example.com/'], requireDigest: false}}"
		signed    = `{allow: {pave: true}, images: {publicKeys: ["-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=\n-----END PUBLIC KEY-----\n"]}}`
		refPrefix = "image.oci.reference by images.prefixes"
		urlPrefix = "image.archive.url by images.prefixes"
	)
	verifies := policy.Host{Verifies: true}
	for _, tt := range []struct {
		name, policy string
		image        *nstancev1.MachineImage
		host         policy.Host
		want         []string
	}{
		{"any image", anyImage, oci("node", ""), policy.Host{}, nil},
		{"a digest by default", "allow: {pave: true}", oci("node", ""), policy.Host{}, []string{"image.oci.digest by images.requireDigest"}},
		{"no image", anyImage, &nstancev1.MachineImage{}, policy.Host{}, []string{"image.type by images"}},
		{"a prefix", prefix, oci("registry.example.com/nodes/gpu:1", digest), policy.Host{}, nil},
		{"another repository", prefix, oci("registry.example.com/other/gpu:1", digest), policy.Host{}, []string{refPrefix}},
		{"another host", prefix, oci("evil.example.com/registry.example.com/nodes/gpu", digest), policy.Host{}, []string{refPrefix}},
		{"a host that begins alike", prefix, oci("registry.example.com.evil.org/nodes/gpu", digest), policy.Host{}, []string{refPrefix}},
		{"a short name is of Docker Hub", hub, oci("debian:12", digest), policy.Host{}, nil},
		{"a short name with a user is not of its library", hub, oci("evil/debian", digest), policy.Host{}, []string{refPrefix}},
		{"a short name does not stand for a host", prefix, oci("nodes/gpu", digest), policy.Host{}, []string{refPrefix}},
		{"an archive", prefix, archive("https://registry.example.com/nodes/a.tar.zst", ""), policy.Host{}, nil},
		{"an archive without TLS", prefix, archive("http://registry.example.com/nodes/a.tar.zst", ""), policy.Host{}, []string{urlPrefix}},
		{"an archive above the prefix", prefix, archive("https://registry.example.com/nodes/../a.tar", ""), policy.Host{}, []string{urlPrefix}},
		{"an archive above the prefix, escaped", prefix, archive("https://registry.example.com/nodes/%2e%2e/a.tar", ""), policy.Host{}, []string{urlPrefix}},
		{"an archive of a user", prefix, archive("https://registry.example.com/nodes/@evil.example.com", ""), policy.Host{}, nil},
		{"an archive whose host is a user", prefix, archive("https://registry.example.com@evil.example.com/nodes/", ""), policy.Host{}, []string{urlPrefix}},
		{"an archive of the storage", prefix, archive("", "images/a.tar"), policy.Host{}, []string{"image.archive.storageKey by images.prefixes"}},
		{"an archive of the storage, allowed", storage, archive("", "images/a.tar"), policy.Host{}, nil},
		{"an archive above the storage's prefix", storage, archive("", "images/../ca.key"), policy.Host{}, []string{"image.archive.storageKey by images.prefixes"}},
		{"debootstrap has no digest", prefix, bootstrapped("http://deb.example.com/debian", ""), policy.Host{}, []string{"image.type by images.requireDigest"}},
		{"debootstrap", debian, bootstrapped("http://deb.example.com/debian", ""), policy.Host{}, nil},
		{"debootstrap of its own mirror", debian, bootstrapped("", ""), policy.Host{}, []string{"image.debootstrap.mirror by images.prefixes"}},
		{"debootstrap with a keyring of the host", anyImage, bootstrapped("", "/usr/share/keyrings/x.gpg"), policy.Host{}, nil},
		{"debootstrap with a keyring that was pushed", anyImage, bootstrapped("", "/opt/nstance-agent/recv/x.gpg"), policy.Host{}, []string{"image.debootstrap.keyring by images"}},
		{"debootstrap with a keyring elsewhere", anyImage, bootstrapped("", "/usr/share/keyrings/../../../tmp/x.gpg"), policy.Host{}, []string{"image.debootstrap.keyring by images"}},
		{"a signature that nobody verifies", signed, oci("node", digest), policy.Host{}, []string{"image.type by images.publicKeys"}},
		{"a signature", signed, oci("node", digest), verifies, nil},
		{"an archive has no signature", signed, archive("https://x.example.com/a", ""), verifies, []string{"image.type by images.publicKeys"}},
		{"debootstrap has no signature", strings.Replace(signed, "publicKeys", "requireDigest: false, publicKeys", 1), bootstrapped("", ""), verifies, []string{"image.type by images.publicKeys"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := &nstancev1.MachineAssignment{Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE, Template: &nstancev1.MachineTemplate{Image: tt.image}}
			if diff := cmp.Diff(tt.want, judged(t, tt.policy, a, tt.host)); diff != "" {
				t.Errorf("refusals:\n%s", diff)
			}
		})
	}
}

func TestM92M100_Judge_Host(t *testing.T) {
	host := policy.Host{Users: []string{"admin", "root"}, Paths: map[string]string{
		"/srv/data/link": "/etc", "/srv/data/inside": "/srv/data/x", "/dev/nvidia0": "/dev/nvidia0", "/dev/nvme0n1": "/dev/nvme0n1", "/dev/nvidia-link": "/dev/sda",
	}}
	const (
		none   = "{allow: {pave: true}}"
		some   = "{allow: {pave: true}, binds: {allow: [/srv/data, /opt/nstance-agent/recv, '/mnt/disk*']}, devices: {allow: ['/dev/nvidia*', /dev/kvm]}, ssh: {users: [admin, gone]}}"
		all    = "{allow: {pave: true}, binds: {allow: [/]}, devices: {allow: [/dev]}, ssh: {users: [admin, root]}}"
		source = "machine.binds[0].source by binds.allow"
		device = "machine.devices[0] by devices.allow"
	)
	bound := func(source string) *nstancev1.MachineTemplate {
		return &nstancev1.MachineTemplate{Machine: &nstancev1.MachineSettings{Binds: []*nstancev1.MachineBind{{Source: source, Target: "/x"}}}}
	}
	with := func(devices ...string) *nstancev1.MachineTemplate {
		return &nstancev1.MachineTemplate{Machine: &nstancev1.MachineSettings{Devices: devices}}
	}
	users := func(names ...string) *nstancev1.MachineTemplate {
		h := &nstancev1.MachineHostSettings{}
		for _, name := range names {
			h.SshKeys = append(h.SshKeys, &nstancev1.MachineSshUser{User: name})
		}
		return &nstancev1.MachineTemplate{Host: h}
	}
	for _, tt := range []struct {
		name, policy string
		template     *nstancev1.MachineTemplate
		want         []string
	}{
		{"no bind by default", none, bound("/srv/data"), []string{source}},
		{"a bind", some, bound("/srv/data"), nil},
		{"below it", some, bound("/srv/data/x/y"), nil},
		{"what begins alike", some, bound("/srv/data2"), []string{source}},
		{"above it", some, bound("/srv"), []string{source}},
		{"out of it", some, bound("/srv/data/../../etc"), []string{source}},
		{"a pattern", some, bound("/mnt/disk7/x"), nil},
		{"a link that leads out of it", some, bound("/srv/data/link"), []string{source}},
		{"a link that stays in it", some, bound("/srv/data/inside"), nil},
		{"files that the server pushes", some, bound("/opt/nstance-agent/recv/x"), nil},
		{"the agent's keys, whatever is allowed", all, bound("/opt/nstance-agent/identity"), []string{"machine.binds[0].source by binds"}},
		{"the policy itself, whatever is allowed", all, bound("/etc/nstance-agent"), []string{"machine.binds[0].source by binds"}},
		{"the other machine, whatever is allowed", all, bound("/var/lib/machines/node-b"), []string{"machine.binds[0].source by binds"}},
		{"what is above the paver's state, whatever is allowed", all, bound("/var/lib"), []string{"machine.binds[0].source by binds"}},
		{"the whole host, whatever is allowed", all, bound("/"), []string{"machine.binds[0].source by binds"}},
		{"no device by default", none, with("/dev/kvm"), []string{device}},
		{"a device", some, with("/dev/kvm"), nil},
		{"another device", some, with("/dev/sda"), []string{device}},
		{"a pattern of devices that are allowed", some, with("/dev/nvidia[0-9]"), nil},
		{"a pattern with a device that is not", some, with("/dev/nv*"), []string{device}},
		{"a link to a device that is not", some, with("/dev/nvidia-link"), []string{device}},
		{"a pattern that finds nothing", none, with("/dev/nothing*"), nil},
		{"every device", all, with("/dev/sda", "/dev/mem"), nil},
		{"M100: nobody's keys by default, and the rest is built", none, users("admin"), []string{"host.sshKeys[0].user by ssh.users, left out"}},
		{"M100: keys of somebody who does not exist", some, users("gone"), []string{"host.sshKeys[0].user by ssh.users, left out"}},
		{"M100: somebody's keys", some, users("admin", "root"), []string{"host.sshKeys[1].user by ssh.users, left out"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.template.Image = oci("node", digest)
			a := &nstancev1.MachineAssignment{Mode: nstancev1.MachineMode_MACHINE_MODE_PAVE, Template: tt.template}
			if diff := cmp.Diff(tt.want, judged(t, tt.policy, a, host)); diff != "" {
				t.Errorf("refusals:\n%s", diff)
			}
		})
	}
}

// TestPolicy_Operation: only what is named is carried out.
func TestPolicy_Operation(t *testing.T) {
	p, err := policy.Parse([]byte("allow: {operations: [reboot, example.com/capture]}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"reboot": true, "example.com/capture": true, "shutdown": false, "Reboot": false, "": false} {
		if refusal := p.Operation(name); (refusal == nil) != want {
			t.Errorf("operation %q: %v", name, refusal)
		}
	}
	if r := (policy.Policy{}).Operation("reboot"); r == nil || !strings.HasPrefix(r.Error(), "RefusedByHost: ") {
		t.Errorf("without a policy: %v", r)
	}
}

// TestARefusalHoldsNoSignature: it is written to logs, and shown to whoever sees the machine.
func TestARefusalHoldsNoSignature(t *testing.T) {
	const secret = "marked-signature"
	p := policy.Policy{Allow: policy.Allow{Pave: true}, Images: policy.Images{Prefixes: []string{"registry.example.com/"}}}
	for _, address := range []string{"https://b.example.com/r.tar?X-Signature=" + secret, "https://user:" + secret + "@b.example.com/r", "https://b.example.com/%zz?" + secret, "x:" + secret} {
		a := &nstancev1.MachineAssignment{Template: &nstancev1.MachineTemplate{
			Image:      &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Archive{Archive: &nstancev1.MachineArchive{Url: address}}},
			Kubernetes: &nstancev1.MachineKubernetes{Artifacts: &nstancev1.MachineArtifacts{Kubelet: &nstancev1.MachineArtifact{Url: address}}},
		}}
		refusals := p.Judge(a, policy.Host{Verifies: true})
		a.Template.Image = &nstancev1.MachineImage{Source: &nstancev1.MachineImage_Debootstrap{Debootstrap: &nstancev1.MachineDebootstrap{Mirror: address}}}
		refusals = append(refusals, p.Judge(a, policy.Host{Verifies: true})...)
		if len(refusals) != 4 {
			t.Errorf("%d refusals", len(refusals))
		}
		for _, r := range refusals {
			if strings.Contains(r.Error(), secret) {
				t.Errorf("%v", r)
			}
		}
	}
}
