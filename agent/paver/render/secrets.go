package render

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// mostPullSecret bounds a pull secret, bytes.
const mostPullSecret = 64 << 10

// secrets writes what the machine joins with, and what it fetches the images of Pods with.
func (r *renderer) secrets() {
	r.slot(ClusterCA, 0o644, lineEnded(r.a.GetApiServer().GetCaBundle()))
	token := fromCredential
	if r.credential != nil {
		token = r.credential.GetToken()
		switch {
		case r.credential.GetEpoch() != r.a.GetEpoch():
			r.problem("credential.epoch", "is %d, and %d that of the assignment", r.credential.GetEpoch(), r.a.GetEpoch())
		case token == "" || !printable.MatchString(token):
			r.problem("credential.token", "must be a bearer token")
		}
	}
	r.secret(BootstrapKubeconfig, r.bootstrapKubeconfig(token))

	name := r.t.GetMachine().GetPullSecret()
	if name == "" {
		return
	}
	if !secretName.MatchString(name) {
		r.problem("machine.pullSecret", "%q is not the name of a Secret", name)
		return
	}
	content := fromSecret(name) + "\n"
	if r.credential != nil {
		secret, there := r.credential.GetPullSecrets()[name]
		switch {
		case !there:
			r.problem("machine.pullSecret", "the credential has no Secret %s", name)
		case len(secret) > mostPullSecret:
			r.problem("machine.pullSecret", "Secret %s has %d bytes, more than %d", name, len(secret), mostPullSecret)
		case !isObject(secret):
			// Its content is not said: it is a secret.
			r.problem("machine.pullSecret", "Secret %s is not the JSON of a Docker configuration", name)
		}
		content = string(secret)
	}
	r.secret(PullSecret, content)
}

// secret adds a file of the slot that root alone may read.
func (r *renderer) secret(path, content string) {
	r.add(File{Place: Slot, Path: path, Mode: 0o600, Content: content, Secret: true})
}

func isObject(text []byte) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(text, &members) == nil && members != nil
}

type kubeconfig struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	Clusters       []namedCluster `yaml:"clusters"`
	Users          []namedUser    `yaml:"users"`
	Contexts       []namedContext `yaml:"contexts"`
	CurrentContext string         `yaml:"current-context"`
}

type namedCluster struct {
	Name    string `yaml:"name"`
	Cluster struct {
		CertificateAuthority string `yaml:"certificate-authority"`
		Server               string `yaml:"server"`
	} `yaml:"cluster"`
}

type namedUser struct {
	Name string `yaml:"name"`
	User struct {
		Token string `yaml:"token"`
	} `yaml:"user"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
}

// bootstrapKubeconfig is what the kubelet asks for its client certificate with.
func (r *renderer) bootstrapKubeconfig(token string) string {
	const name = "bootstrap"
	c := kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []namedCluster{{Name: name}}, Users: []namedUser{{Name: name}}, Contexts: []namedContext{{Name: name}},
	}
	c.Clusters[0].Cluster.CertificateAuthority = ClusterCA
	c.Clusters[0].Cluster.Server = r.a.GetApiServer().GetEndpoint()
	c.Users[0].User.Token = token
	c.Contexts[0].Context.Cluster, c.Contexts[0].Context.User = name, name
	text, err := yaml.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("render: a kubeconfig without YAML form: %v", err)) // texts alone
	}
	return string(text)
}
