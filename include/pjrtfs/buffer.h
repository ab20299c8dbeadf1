/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers: the objects behind the files in buffers/.
 *
 * A buffer has content (bytes as a user wrote them, in the buffer's format) or a value (an
 * array), usually both: committing makes a value of the content without copying it.
 */
#ifndef PJRTFS_BUFFER_H
#define PJRTFS_BUFFER_H

#include "pjrtfs/array_files.h"
#include "pjrtfs/value.h"

struct pf_snapshot;

enum pf_format {
	PF_FORMAT_NONE, /* a scratch file: kept, never uploaded */
	PF_FORMAT_NPY,
	PF_FORMAT_RAW,
	PF_FORMAT_TXT,
	PF_FORMAT_SAFETENSORS,
	PF_FORMAT_JSON, /* what is known of the buffer: can only be read */
	PF_FORMAT_COUNT
};

/* Has the file STEM.txt, of a model's repository, words and no array?  LEN: of STEM. */
bool pf_stem_has_words(const char *stem, size_t len);

/* The format of a file name's extension; *STEM_LEN (if not NULL) bytes come before it.  merges.txt and
 * vocab.txt, which hold a tokenizer's words, have none. */
enum pf_format pf_format_of(const char *name, size_t *stem_len);

/* The extension with its dot: ".npy"; "" for PF_FORMAT_NONE.  Static. */
const char *pf_format_extension(enum pf_format format);

/* Where the arrays of a directory live. */
struct pf_location {
	struct pf_arena *arena;   /* borrowed */
	struct pf_worker *worker; /* borrowed */
	unsigned device;          /* index of the worker's device */
	const char *device_name;  /* "cpu:0"; borrowed */
};

/* Its fields are the store's.  The functions take its lock, which is held during no I/O, but as long as
 * its content is converted (pf_buffer_commit_is_slow). */
struct pf_buffer;

/* LOCATION's MEMORY, for an array. */
static inline struct pf_place pf_location_place(const struct pf_location *location,
						unsigned memory)
{
	return (struct pf_place){ location->worker, location->device, memory };
}

/* The index of LOCATION's memory of KIND ("pinned_host") in *RET.  -EINVAL: it has none. */
int pf_location_memory(const struct pf_location *location, const char *kind,
		       unsigned *ret, struct pf_err *err);

/* --- making and freeing ------------------------------------------------------------- */

/* An empty buffer at LOCATION, for arrays in its MEMORY; one reference.  NULL: no memory. */
struct pf_buffer *pf_buffer_new(const struct pf_location *location, unsigned memory,
				enum pf_format format);

/* A buffer that holds VALUE (a reference is taken) in VALUE's memory, made by MADE_BY. */
struct pf_buffer *pf_buffer_of_value(const struct pf_location *location,
				     struct pf_value *value, const char *made_by);

/* Add a reference; drop one.  The last one frees the content and the value. */
struct pf_buffer *pf_buffer_ref(struct pf_buffer *buffer);
void pf_buffer_unref(struct pf_buffer *buffer); /* NULL is allowed */
PF_DEFINE_CLEANUP(struct pf_buffer *, pf_buffer_unref)

/* BUFFER has neither name nor open file: free its bytes and value, even if references are left. */
void pf_buffer_discard(struct pf_buffer *buffer);

/* Charge ACCOUNT for its file and its bytes; with FORCED beyond the maxima, too.  -EDQUOT,
 * -ENOSPC. */
int pf_buffer_charge(struct pf_buffer *buffer, struct pf_account *account, bool forced,
		     struct pf_err *err);

/* Charge ACCOUNT instead for all of it that is charged, and for its bytes from now on, even beyond
 * the maxima. */
void pf_buffer_charge_to(struct pf_buffer *buffer, struct pf_account *account);

/* The account that is charged, borrowed; or NULL. */
struct pf_account *pf_buffer_account(struct pf_buffer *buffer);

/* --- what it is at this moment ------------------------------------------------------ */

/* Its number in the journal, which never changes; 0: there is no journal. */
uint64_t pf_buffer_number(const struct pf_buffer *buffer);

/* Its location at this moment; borrowed as long as BUFFER is.  Takes no lock. */
const struct pf_location *pf_buffer_location(const struct pf_buffer *buffer);

/* Its name in events is SUBJECT from now on; 0: it has none. */
void pf_buffer_name(struct pf_buffer *buffer, uint64_t subject);

/* What a buffer is at one moment. */
struct pf_buffer_facts {
	const struct pf_location *location; /* borrowed as long as the buffer is */
	unsigned memory;  /* index of the device's memory, or PF_DEFAULT_MEMORY */
	uint64_t subject; /* its name in events; 0: it has none */
	/* Its type: of its value, else as declared, else, for raw bytes, U8[n].
	 * PF_DTYPE_INVALID: not known. */
	enum pf_dtype dtype;
	struct pf_shape shape;
};

/* Copy BUFFER's facts to *RET. */
void pf_buffer_facts(struct pf_buffer *buffer, struct pf_buffer_facts *ret);

/* How BUFFER, which no other thread has yet, was made: "upload", "copy", a command, or the executable's
 * name; borrowed. */
const char *pf_buffer_maker(const struct pf_buffer *buffer);

/* The bytes of its content, and the format that they are written in. */
uint64_t pf_buffer_size(struct pf_buffer *buffer);
enum pf_format pf_buffer_format(struct pf_buffer *buffer);

/* The bytes of its content and its value, at most: they may be the same. */
uint64_t pf_buffer_bytes(struct pf_buffer *buffer);

/* Was it written as a file that names no type? */
enum pf_untyped pf_buffer_untyped(struct pf_buffer *buffer);

/* Is it written as FORMAT, and has it no bytes yet? */
bool pf_buffer_is_blank(struct pf_buffer *buffer, enum pf_format format);

/* Is the content a .npy header, and nothing else yet? */
bool pf_buffer_is_header(struct pf_buffer *buffer);

/* Is there an array, but no content: a result that was not written to? */
bool pf_buffer_lacks_bytes(struct pf_buffer *buffer);

/* Has it bytes that were not committed since they were written; or arrays, for a directory that
 * shows them? */
bool pf_buffer_awaits_commit(struct pf_buffer *buffer);

/* Was it committed as such a file, and not written since? */
bool pf_buffer_is_tensors(struct pf_buffer *buffer);

/* Does a commit take milliseconds to convert or to parse?  Then it needs a thread of its own. */
bool pf_buffer_commit_is_slow(struct pf_buffer *buffer);

/* The value for an execution, with a reference in *RET; -ENODATA empty, -ENOENT scratch, -EISDIR
 * several arrays, -EINVAL incomplete or donated, the error of a refused upload. */
int pf_buffer_value(struct pf_buffer *buffer, struct pf_value **ret, struct pf_err *err);

/* The state's name for users: "ready", "empty", "transferring" ... */
const char *pf_buffer_state_name(struct pf_buffer *buffer);

/* x.json's object about the buffer called NAME.  The caller's; without memory incomplete, or NULL. */
struct json_object *pf_buffer_json(struct pf_buffer *buffer, const char *name);

/* --- writing ------------------------------------------------------------------------ */

/*
 * A writer opens it by VIEW, one of the names of its formats (any pointer): all writers write the
 * same view at a time, as a write in another format would have no meaning in that one.  False:
 * another view is open for writing.  That an earlier writer's line of text was refused is forgotten.
 */
bool pf_buffer_open_writer(struct pf_buffer *buffer, const void *view);
void pf_buffer_close_writer(struct pf_buffer *buffer);

/*
 * Write LEN bytes at OFF to the content, in its own format.  A frozen content becomes a copy
 * first.  A write that the header alone shows to be wrong is refused: EINVAL (not such a header,
 * data beyond what it says), EOVERFLOW; ENOSPC: over the memory limit.  Returns LEN.  Does not
 * block.
 */
ssize_t pf_buffer_write(struct pf_buffer *buffer, const void *src, size_t len,
			uint64_t off, struct pf_err *err);

/* Make every element of a declared, empty buffer ELEMENT (of the dtype's size): content to
 * be committed.  -ENOSPC, -ENOMEM. */
int pf_buffer_fill(struct pf_buffer *buffer, const void *element, struct pf_err *err);

/* Set the content's size: 0 empties the buffer, its value is freed. */
int pf_buffer_truncate(struct pf_buffer *buffer, uint64_t size, struct pf_err *err);

/* Zero the LEN bytes at OFF that lie within the content: a write that makes a hole. */
int pf_buffer_punch(struct pf_buffer *buffer, uint64_t off, uint64_t len,
		    struct pf_err *err);

/* --- its format and type ------------------------------------------------------------ */

/* Is the content a whole array of FORMAT, as far as this is known without reading all of a long text?
 * 0; 1: it is a whole file of no or several arrays (pf_buffer_tensors); -EINVAL, -ERANGE, why a rename
 * to it is refused; -ENOMEM. */
int pf_buffer_check(struct pf_buffer *buffer, enum pf_format format, struct pf_err *err);

/* Take another format (a rename to another extension): scratch to listed, or back. */
void pf_buffer_set_format(struct pf_buffer *buffer, enum pf_format format);

/*
 * Before a write in another format than that of the content: the bytes that a reader of FORMAT
 * sees become the content, and the array's dtype and shape type what is written.  NAME as for
 * pf_snapshot_open.  KEEP false: the content becomes empty.  -EIO: the bytes are not in host
 * memory; -ENOSPC.
 */
int pf_buffer_adopt(struct pf_buffer *buffer, enum pf_format format, const char *name,
		    bool keep, struct pf_err *err);

/* Declare what raw bytes and text will mean; both are valid.  -EOVERFLOW. */
int pf_buffer_declare(struct pf_buffer *buffer, enum pf_dtype dtype,
		      const struct pf_shape *shape, struct pf_err *err);

/*
 * Type raw bytes, text, a .npy that does not name its type, or a scratch file that will be
 * such a file.  A new dtype keeps the shape if the bytes allow, else makes them one row; a new
 * shape keeps the dtype.  -EINVAL: the bytes do not fit, or the header says otherwise.  0: the
 * type was the same, or applies once bytes are written or the file is renamed; 1: the bytes have
 * another type now: commit them.
 */
int pf_buffer_set_dtype(struct pf_buffer *buffer, enum pf_dtype dtype,
			struct pf_err *err);
int pf_buffer_set_shape(struct pf_buffer *buffer, const struct pf_shape *shape,
			struct pf_err *err);

/* --- committing --------------------------------------------------------------------- */

/*
 * Make a value of the content: 0 and the value, with a reference, in *RET, for the caller
 * to send to its device (pf_value_transfer, then pf_buffer_transferred).  1: the content
 * makes no value (a scratch file; with PARTIAL_OK also an incomplete content).  2: it is
 * a whole file of no or several arrays: pf_buffer_tensors has them.  -errno: the content
 * is refused, the former value is gone, the state keeps the sentence.  Converting text,
 * column-major arrays and those of packed elements takes time (pf_buffer_commit_is_slow);
 * else this does not block.
 */
int pf_buffer_commit(struct pf_buffer *buffer, bool partial_ok, struct pf_value **ret,
		     struct pf_err *err);

/* The arrays of a .safetensors file, each a value of its own. */
struct pf_tensors {
	size_t n;
	struct pf_safetensors head; /* owned: names and types, in the order of the data */
	struct pf_value **values;   /* owned array of owned references */
};

/*
 * The arrays that the content holds as a .safetensors file, whatever the buffer's format, as
 * it is at this moment, to live at LOCATION.  The values share its bytes, but for those of
 * packed elements; none is on a device yet.  *RET is the caller's: pf_tensors_release.  -EINVAL,
 * -EOVERFLOW, -E2BIG: it is not such a file, or not whole; -ENOSPC, -ENOMEM.  Takes a second for
 * the longest header, and the time of unpacking.
 */
int pf_buffer_tensors(struct pf_buffer *buffer, const struct pf_location *location,
		      struct pf_tensors *ret, struct pf_err *err);
void pf_tensors_release(struct pf_tensors *tensors); /* all zeros is allowed */

/* Refuse its bytes after all, for the reason ERR. */
void pf_buffer_refuse(struct pf_buffer *buffer, const struct pf_err *err);

/* The transfer of VALUE ended with CODE (err).  If the device refused VALUE, and it is still the buffer's,
 * the buffer drops it, and keeps the reason. */
void pf_buffer_transferred(struct pf_buffer *buffer, struct pf_value *value, int code,
			   const struct pf_err *err);

/* An execution consumed VALUE: if the buffer has it still, drop it and its bytes. */
void pf_buffer_forget_donated(struct pf_buffer *buffer, struct pf_value *value);

/* --- its location ------------------------------------------------------------------- */

/*
 * Become what SNAPSHOT shows, of another buffer in the same format, without copying its bytes.
 * False: it has neither an array nor frozen bytes, another account is charged for them, or no
 * memory is left: copy the bytes.  *RET is the value, shared on the same device, else a copy, for the
 * caller to transfer, with a reference; or NULL: SNAPSHOT had bytes only, which are to be committed.
 */
bool pf_buffer_take(struct pf_buffer *buffer, const struct pf_snapshot *snapshot,
		    struct pf_value **ret);

/* It lives at LOCATION, on the same device, from now on.  If that is another user's, other threads may
 * still use the location that it leaves, so its arena stays held. */
void pf_buffer_change_home(struct pf_buffer *buffer, const struct pf_location *location);

/*
 * Move it to LOCATION, of the same user, to its memory MEMORY.  *RET: a value to be transferred there, with a
 * reference, or NULL if it has none.  Until it is transferred readers get the old bytes, also if
 * that fails.  -ENOMEM.
 */
int pf_buffer_move(struct pf_buffer *buffer, const struct pf_location *location,
		   unsigned memory, struct pf_value **ret, struct pf_err *err);

#endif
