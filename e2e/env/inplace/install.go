// Package inplace installs the operator's chart in a cluster that runs no Pods: all of it but the
// Deployment, whose program is a process of this box, with the rights that the chart gives its
// ServiceAccount.
package inplace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/repo/chart"
)

// Options say what is installed where; all are required.
type Options struct {
	Cluster *kube.Cluster
	Release chart.Release
	Values  map[string]any // of the chart
	Dir     string         // exists, and gets the files that the Pod would find
}

// Installation is a chart that is installed, and how its program is started.
type Installation struct {
	Rendered  chart.Rendered
	Account   string // the name of the ServiceAccount
	Args, Env []string
}

// Install installs the chart of the repository around the working directory, with the kinds of
// Cluster API, which its objects name.
func Install(ctx context.Context, o Options) (*Installation, error) {
	in := &Installation{}
	var err error
	if in.Rendered, err = Render(o.Release, o.Values); err != nil {
		return nil, err
	}
	objects, pod, err := parts(in.Rendered, o.Release.Namespace)
	if err != nil {
		return nil, err
	}
	kinds, err := kube.ClusterAPIDefinitions()
	if err != nil {
		return nil, err
	}
	if err := o.Cluster.Apply(ctx, append(kinds, objects...)...); err != nil {
		return nil, err
	}
	in.Account = pod.ServiceAccountName
	return in, in.asPod(ctx, o, pod)
}

// parts are the objects of a chart in its namespace, but for the Deployment, and the Pod of that.
func parts(rendered chart.Rendered, namespace string) (objects []*unstructured.Unstructured, pod corev1.PodSpec, err error) {
	made, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: namespace},
	})
	if err != nil {
		return nil, pod, err
	}
	objects = append(objects, &unstructured.Unstructured{Object: made})
	var deployment appsv1.Deployment
	for _, object := range rendered.Objects {
		if object.GetKind() != "Deployment" {
			objects = append(objects, object)
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return nil, pod, err
		}
	}
	pod = deployment.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		return nil, pod, errors.New("the chart has no Deployment with a container")
	}
	return objects, pod, nil
}

// Render renders the chart of the repository around the working directory.
func Render(release chart.Release, values map[string]any) (chart.Rendered, error) {
	dir, err := root()
	if err != nil {
		return chart.Rendered{}, err
	}
	return chart.Render(filepath.Join(dir, "operator", "charts", "nstance-operator"), release, values)
}

// root is the directory with go.work above the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// asPod takes from a Pod how its program is started. The files of its ConfigMaps are in a
// directory here, and its arguments name them there.
func (in *Installation) asPod(ctx context.Context, o Options, pod corev1.PodSpec) error {
	client, err := kubernetes.NewForConfig(o.Cluster.Admin())
	if err != nil {
		return err
	}
	container := pod.Containers[0]
	in.Args = slices.Clone(container.Args)
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].ConfigMap == nil {
			continue
		}
		dir, err := files(ctx, client, o, pod.Volumes[i].ConfigMap)
		if err != nil {
			return err
		}
		for n := range in.Args {
			in.Args[n] = replacePath(in.Args[n], mount.MountPath, dir)
		}
	}
	config, err := kubeconfig(ctx, client, o, in.Account)
	if err != nil {
		return err
	}
	in.Args = append(in.Args, "--kubeconfig="+config)
	for _, e := range container.Env {
		if e.ValueFrom != nil { // the Pod's namespace
			e.Value = o.Release.Namespace
		}
		in.Env = append(in.Env, e.Name+"="+e.Value)
	}
	return nil
}

// files writes the entries of a ConfigMap into a directory, as a kubelet does.
func files(ctx context.Context, client kubernetes.Interface, o Options, source *corev1.ConfigMapVolumeSource) (string, error) {
	config, err := client.CoreV1().ConfigMaps(o.Release.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(o.Dir, source.Name+"-")
	if err != nil {
		return "", err
	}
	for key, text := range config.Data {
		for _, item := range source.Items {
			if item.Key == key {
				key = item.Path
			}
		}
		if err := os.WriteFile(filepath.Join(dir, key), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// kubeconfig returns a file that lets the program be its ServiceAccount, by a token of it.
func kubeconfig(ctx context.Context, client kubernetes.Interface, o Options, account string) (string, error) {
	seconds := int64(24 * time.Hour / time.Second)
	token, err := client.CoreV1().ServiceAccounts(o.Release.Namespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s: %w", account, err)
	}
	config := o.Cluster.Admin()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	return o.Cluster.KubeconfigFile(config)
}

// replacePath returns an argument whose path below a directory is below another one.
func replacePath(arg, was, is string) string {
	name, path, _ := strings.Cut(arg, "=")
	if rest, below := strings.CutPrefix(path, strings.TrimSuffix(was, "/")+"/"); below {
		return name + "=" + is + "/" + rest
	}
	return arg
}

// Flag is the value of a flag of the program; empty: it is not there.
func (in *Installation) Flag(name string) string {
	for _, arg := range in.Args {
		if value, is := strings.CutPrefix(arg, name+"="); is {
			return value
		}
	}
	return ""
}
