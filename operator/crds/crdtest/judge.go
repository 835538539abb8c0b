package crdtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A Judge answers requests about one kind as an API server does.
type Judge struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// NewJudge returns the judge of the version that a definition stores.
func NewJudge(crd *apiextensionsv1.CustomResourceDefinition) (*Judge, error) {
	i := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if i < 0 || crd.Spec.Versions[i].Schema == nil {
		return nil, fmt.Errorf("%s: no stored version with a schema", crd.Name)
	}
	props := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[i].Schema.OpenAPIV3Schema, props, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: convert the schema: %w", crd.Name, err)
	}
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", crd.Name, err)
	}
	schema, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", crd.Name, err)
	}
	return &Judge{structural, schema, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Store returns what is stored of an object: with defaults, and without unknown fields.
func (j *Judge) Store(object Object) Object {
	stored := runtime.DeepCopyJSON(integers(object))
	defaulting.Default(stored, j.structural)
	pruning.Prune(stored, j.structural, true)
	return stored
}

// Answer returns what is wrong with a request; nothing if it is accepted.
func (j *Judge) Answer(ctx context.Context, c Case) field.ErrorList {
	sent := j.Store(c.Sent)
	if c.Stored == nil {
		delete(sent, "status")
		return j.validate(ctx, sent, nil)
	}
	stored := j.Store(c.Stored)
	if c.Status {
		changed := runtime.DeepCopyJSON(stored)
		delete(changed, "status")
		if status, has := sent["status"]; has {
			changed["status"] = status
		}
		return j.validate(ctx, changed, stored)
	}
	delete(sent, "status")
	if status, has := stored["status"]; has {
		sent["status"] = status
	}
	return j.validate(ctx, sent, stored)
}

func (j *Judge) validate(ctx context.Context, object, old Object) field.ErrorList {
	var errs field.ErrorList
	var was any
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, j.schema)
	} else {
		was = old
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, j.schema)
	}
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, j.structural, object)...)
	if len(errs) > 0 { // rules may rely on the schema
		return errs
	}
	errs, _ = j.rules.Validate(ctx, nil, j.structural, object, was, celconfig.RuntimeCELCostBudget)
	return errs
}

// integers returns a value as the API server decodes it, with integers that are such.
func integers(object Object) Object {
	converted, _ := convert(object).(Object)
	return converted
}

func convert(value any) any {
	switch value := value.(type) {
	case Object:
		converted := make(Object, len(value))
		for key, inner := range value {
			converted[key] = convert(inner)
		}
		return converted
	case []any:
		converted := make([]any, len(value))
		for i, inner := range value {
			converted[i] = convert(inner)
		}
		return converted
	case float64:
		if value == float64(int64(value)) {
			return int64(value)
		}
	}
	return value
}

// KindOf is the kind of an object.
func KindOf(object Object) string {
	kind, _ := object["kind"].(string)
	return kind
}

// Agree checks an answer against what a case expects: empty if they agree, else what
// differs.
func Agree(c Case, errs field.ErrorList) string {
	switch {
	case c.Refused == "" && len(errs) == 0:
		return ""
	case c.Refused == "":
		return fmt.Sprintf("refused: %v", errs.ToAggregate())
	case len(errs) == 0:
		return fmt.Sprintf("accepted, want refused: %s", c.Refused)
	case !slices.ContainsFunc(errs, func(err *field.Error) bool { return strings.Contains(err.Error(), c.Refused) }):
		return fmt.Sprintf("refused with %v, want a part of it to be %q", errs.ToAggregate(), c.Refused)
	}
	return ""
}
