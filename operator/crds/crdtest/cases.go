package crdtest

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Object is a custom resource as JSON decodes it.
type Object = map[string]any

// A Case is one request and what becomes of it.
type Case struct {
	Name string
	// Stored is the object that the request meets, with its status; nil: the request
	// creates one.
	Stored Object
	// Sent is the object that the request carries.
	Sent Object
	// Status is whether the request goes to the status subresource.
	Status bool
	// Refused is a part of the error that answers the request; empty: it is accepted.
	Refused string
}

// Cases returns the table. Each call returns new objects.
func Cases() []Case {
	var all []Case
	for _, kind := range [][]Case{
		clusterCases(), controlPlaneCases(), poolCases(), staticPoolCases(), demandPoolCases(), shardGroupCases(),
		machineCases(), machineRetryCases(), templateCases(),
	} {
		all = append(all, kind...)
	}
	return all
}

// Examples are small valid objects, one of each kind.
func Examples() []Object {
	return []Object{
		parse(cluster), parse(controlPlane), parse(pool), parse(shardGroup), parse(machine), parse(template),
	}
}

// create is a request that makes the example with a change.
func create(example, name, change, refused string) Case {
	return Case{Name: name, Sent: merge(parse(example), parse(change)), Refused: refused}
}

// update is a request that changes an object; before says how what is stored differs
// from the example.
func update(example, before, name, change, refused string) Case {
	stored := merge(parse(example), parse(before))
	return Case{Name: name, Stored: stored, Sent: merge(stored, parse(change)), Refused: refused}
}

// status is a request that changes the status of the example.
func status(example, name, change, refused string) Case {
	c := update(example, "", name, change, refused)
	c.Status = true
	return c
}

// parse decodes YAML that stands in this package.
func parse(text string) Object {
	object := Object{}
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		panic(fmt.Sprintf("crdtest: %v in:\n%s", err, text))
	}
	return object
}

// merge returns object with a JSON merge patch applied; object stays as it is.
func merge(object, patch Object) Object {
	merged := Object{}
	for key, value := range object {
		merged[key] = value
	}
	for key, value := range patch {
		inner, isObject := value.(Object)
		switch {
		case value == nil:
			delete(merged, key)
		case isObject:
			there, _ := merged[key].(Object)
			merged[key] = merge(there, inner)
		default:
			merged[key] = value
		}
	}
	return merged
}
