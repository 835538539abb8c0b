package pages

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/manager"
)

// kubectl checks what kubectl is asked: its own commands parse the arguments, kinds are those of
// Kubernetes, Cluster API and this repository, and so are the fields of objects and patches.
type kubectl struct {
	root    string
	decoder runtime.Decoder
	kinds   map[string]*apiextensionsv1.CustomResourceDefinition // by each name that kubectl takes; nil: a kind of others
}

func newKubectl(root string) (*kubectl, error) {
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	k := &kubectl{
		root: root, decoder: serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(),
		kinds: map[string]*apiextensionsv1.CustomResourceDefinition{},
	}
	for gvk := range scheme.AllKnownTypes() {
		name := strings.ToLower(gvk.Kind)
		for _, form := range []string{name, name + "s", name + "es", strings.TrimSuffix(name, "y") + "ies"} {
			k.kinds[form] = nil
		}
	}
	for name := range strings.FieldsSeq("all no po deploy cm ns sa svc pdb crd vap vapb cl ma mp md ms mhc") { // what kubectl learns from the API server
		k.kinds[name] = nil
	}
	for _, read := range []func() ([]*apiextensionsv1.CustomResourceDefinition, error){crds.All, crds.Demand, crds.Hosts} {
		all, err := read()
		if err != nil {
			return nil, err
		}
		for _, crd := range all {
			names := crd.Spec.Names
			for _, name := range append(names.ShortNames, names.Plural, names.Singular, strings.ToLower(names.Kind), names.Plural+"."+crd.Spec.Group) {
				k.kinds[name] = crd
			}
		}
	}
	return k, nil
}

// aboutObjects are the commands whose first argument names kinds.
var aboutObjects = []string{"get", "describe", "delete", "patch", "annotate", "label", "wait", "edit", "scale", "explain"}

func (k *kubectl) check(args []string, call call) error {
	root := cmd.NewKubectlCommand(cmd.KubectlOptions{
		Arguments: []string{"kubectl"}, IOStreams: genericiooptions.NewTestIOStreamsDiscard(), ConfigFlags: genericclioptions.NewConfigFlags(true),
	})
	command, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if command == root || command.HasSubCommands() && !command.Runnable() {
		return fmt.Errorf("%s: there is no such command", strings.Join(args, " "))
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	errs := []error{k.files(command, call)}
	if !slices.Contains(aboutObjects, command.Name()) || command.Parent() != root || command.Flags().NArg() == 0 {
		return errors.Join(errs...)
	}
	var crd *apiextensionsv1.CustomResourceDefinition
	first, _, _ := strings.Cut(command.Flags().Arg(0), "/")
	for kind := range strings.SplitSeq(first, ",") {
		known, ok := k.kinds[kind]
		if !ok && fixed(kind) {
			errs = append(errs, fmt.Errorf("%s: there is no such kind", kind))
		}
		crd = known
	}
	if patch := command.Flags().Lookup("patch"); command.Name() == "patch" && patch != nil && fixed(patch.Value.String()) {
		errs = append(errs, patches(crd, patch.Value.String()))
	}
	return errors.Join(errs...)
}

// files demands that the files of the repository that are applied exist, and that what is read
// from the script itself is objects of their kinds.
func (k *kubectl) files(command *cobra.Command, call call) error {
	if command.Flags().Lookup("filename") == nil {
		return nil
	}
	names, err := command.Flags().GetStringSlice("filename")
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, exists(k.root, name))
		if name == "-" && call.input && fixed(call.document) {
			errs = append(errs, k.objects(call.document))
		}
	}
	return errors.Join(errs...)
}

// objects demands that documents in YAML are of kinds that exist, with fields alone that these have.
func (k *kubectl) objects(text string) error {
	var errs []error
	documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		} else if err != nil {
			return errors.Join(append(errs, err)...)
		}
		if _, _, err := k.decoder.Decode(document, nil, nil); err != nil {
			errs = append(errs, err)
		}
	}
}

// patches demands that a patch is JSON, and one that merges has fields alone that its kind has.
func patches(crd *apiextensionsv1.CustomResourceDefinition, text string) error {
	var patch any
	if err := json.Unmarshal([]byte(text), &patch); err != nil {
		return fmt.Errorf("the patch %s: %w", text, err)
	}
	if object, ok := patch.(map[string]any); ok && crd != nil {
		return fields(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, object, "", crd.Spec.Names.Kind)
	}
	return nil
}

// fields names the fields of a value that its schema does not have.
func fields(schema *apiextensionsv1.JSONSchemaProps, value any, at, kind string) error {
	var errs []error
	switch value := value.(type) {
	case map[string]any:
		if schema.Properties == nil && schema.AdditionalProperties == nil { // any field, or none of the schema's business
			return nil
		}
		for name, inner := range value {
			place := strings.TrimPrefix(at+"."+name, ".")
			switch known, ok := schema.Properties[name]; {
			case at == "" && (name == "apiVersion" || name == "kind" || name == "metadata"):
			case ok:
				errs = append(errs, fields(&known, inner, place, kind))
			case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
				errs = append(errs, fields(schema.AdditionalProperties.Schema, inner, place, kind))
			default:
				errs = append(errs, fmt.Errorf("%s has no field %s", kind, place))
			}
		}
	case []any:
		if schema.Items == nil || schema.Items.Schema == nil {
			return nil
		}
		for i, inner := range value {
			errs = append(errs, fields(schema.Items.Schema, inner, fmt.Sprintf("%s[%d]", at, i), kind))
		}
	}
	return errors.Join(errs...)
}
