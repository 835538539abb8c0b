package kube

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Admin returns the configuration of a client that may do everything, without a limit
// of its own on requests. Each call returns a copy.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// User returns the configuration of a client for a user with any name and groups. What
// he may do RBAC says. The client has no limit of its own on requests. In a cluster that was
// given the administrator acts as that user.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, error) {
	if c.authority == nil {
		config := c.Admin()
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		return config, nil
	}
	cert, err := c.authority.client(name, groups)
	if err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", name, err)
	}
	config := rest.CopyConfig(c.server)
	config.UserAgent, config.CertData, config.KeyData = name, cert.cert, cert.key
	return config, nil
}

// APIServer returns the address, https://host:port, at which what runs with the cluster
// reaches its API server: in a Pod, where the cluster runs Pods.
func (c *Cluster) APIServer() string {
	if Where().RunsPods() {
		return "https://kubernetes.default.svc:443"
	}
	return c.server.Host
}

// ServiceAccount returns the configuration of a client for a ServiceAccount, which need
// not exist.
func (c *Cluster) ServiceAccount(namespace, name string) (*rest.Config, error) {
	return c.User("system:serviceaccount:"+namespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// Node returns the configuration of a client for the kubelet of a Node.
func (c *Cluster) Node(name string) (*rest.Config, error) {
	return c.User("system:node:"+name, "system:nodes")
}

// Kubeconfig returns a client's configuration in the form of a kubeconfig file. Who has
// it is that user.
func Kubeconfig(config *rest.Config) ([]byte, error) {
	file := api.NewConfig()
	file.Clusters["test"] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos["test"] = &api.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	file.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test"}
	file.CurrentContext = "test"
	return clientcmd.Write(*file)
}

// KubeconfigFile returns the path of a kubeconfig file for a client. It is deleted with
// the cluster's directory.
func (c *Cluster) KubeconfigFile(config *rest.Config) (string, error) {
	data, err := Kubeconfig(config)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(c.dir, "*.kubeconfig")
	if err != nil {
		return "", err
	}
	defer f.Close() // where it is not closed below
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// componentUser writes the kubeconfig of a component and returns its path.
func (c *Cluster) componentUser(component Component, user string, groups ...string) (string, error) {
	config, err := c.User(user, groups...)
	if err != nil {
		return "", err
	}
	data, err := Kubeconfig(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, string(component)+".kubeconfig")
	return path, os.WriteFile(path, data, 0o600)
}
