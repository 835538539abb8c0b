// Package compact keeps a hundred thousand objects of a cache in little memory: of Pods and of CapacityRequests it
// keeps once what is equal in many of them, and for each its name, its UID and its times.
//
// [Informers] is for the NewInformer of a cache's options. What is read from such a cache, and what its
// handlers hear of, are whole objects, as if they had been kept so: each read and each call of a handler makes one
// anew. It shares maps, slices and pointers with other objects. As with every cache, a reader that makes no copy
// must not change them.
//
// What of an object is kept at all is said by the transform of its cache, which runs before. The less it keeps of
// what differs from one object to the next, the less there is to remember. An equal part is forgotten with the last
// object that has it.
package compact
