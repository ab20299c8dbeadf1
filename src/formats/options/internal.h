/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/formats/options. */
#ifndef PJRTFS_FORMATS_OPTIONS_INTERNAL_H
#define PJRTFS_FORMATS_OPTIONS_INTERNAL_H

#include <json-c/json.h>

#include "compile_options.pb-c.h"
#include "pjrtfs/base.h"

/* Compile options as a message whose parts are all malloc(3)ed.  (options_fields.c) */

/* A message with empty build options; pf_options_proto_free.  NULL: no memory. */
Pjrtfs__Options__CompileOptions *pf_options_proto_new(void);
void pf_options_proto_free(Pjrtfs__Options__CompileOptions *proto); /* NULL is allowed */

/*
 * Set the field KEY of PROTO, or of its build options, to VALUE, which is checked.  What is 0,
 * false or empty is left out, as a writer of proto3 does.  -EINVAL: the sentence names KEY, what
 * was expected and what was found; -ENOMEM.  KEY has a field, and is not device_assignment.
 */
int pf_options_field_set(Pjrtfs__Options__CompileOptions *proto, const char *key,
			 struct json_object *value, struct pf_err *err);

/* LEN bytes of SRC in base64.  NULL: no memory. */
struct json_object *pf_options_base64(const void *src, size_t len);

/* 0; -EINVAL: KEY is not an option, and the sentence lists all options. */
int pf_options_check_key(const char *key, struct pf_err *err);

/* -EINVAL: option KEY is FOUND, not what was expected: WANT. */
int pf_options_refuse(const char *key, const char *want, struct json_object *found,
		      struct pf_err *err);

/* -EINVAL: "input_names" of OPTIONS is no list of names.  (input_names.c) */
int pf_options_check_names(struct json_object *options, struct pf_err *err);

/*
 * Shapes with a layout, as "F32[2,3]{0,1}": XLA's notation, with the dimension that varies fastest
 * first in the braces; without braces the layout is left open.  (layout_text.c)
 */

enum { PF_LAYOUT_PARTS = 4096 /* of a tuple */ };

/* Write the shape that VALUE names, or the tuple if it is a list of shapes, to *RET: a malloc(3)ed
 * ShapeProto.  -EINVAL: it names none; the caller says so; -ENOMEM. */
int pf_layout_encode(struct json_object *value, ProtobufCBinaryData *ret);

/* The reverse.  NULL: PROTO is not a ShapeProto, or has what such a text cannot say; or no memory. */
struct json_object *pf_layout_decode(const ProtobufCBinaryData *proto);

#endif
