package nodes

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Capacity is what a Node says that Pods may use of a machine of a type, "cpu-2-memory-4096" as a
// label has it: what servers take for that, if nothing else is reserved in the group.
func Capacity(instanceType string) corev1.ResourceList {
	all := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	parts := strings.Split(instanceType, "-")
	for i := 0; i+1 < len(parts); i += 2 {
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			continue
		}
		switch parts[i] {
		case "cpu":
			all[corev1.ResourceCPU] = *resource.NewMilliQuantity(1000*n-60-10*(n-1), resource.DecimalSI)
		case "memory":
			all[corev1.ResourceMemory] = *resource.NewQuantity((n-255-11*110-100)<<20, resource.BinarySI)
		}
	}
	return all
}
