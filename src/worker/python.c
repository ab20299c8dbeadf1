/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pjrtfs-python.so: stubs of Python's symbols, so that an FFI library that is also a module of Python can be
 * loaded where there is no Python.  Only what the dynamic linker resolves at once is here: data, and functions whose
 * address is taken.  Any other function has the linker end the process with a sentence, when it is called.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECT = 1024 /* bytes, more than any type of Python has */ };

static void __attribute__((noreturn)) end(const char *name)
{
	static const char before[] = "pjrtfs-worker: an FFI library called Python's ",
			  after[] = ", and there is no Python here\n";

	(void)!write(2, before, sizeof(before) - 1);
	(void)!write(2, name, strlen(name));
	(void)!write(2, after, sizeof(after) - 1);
	abort();
}

#define VISIBLE __attribute__((visibility("default")))
#define OBJECT_STUB(name) VISIBLE _Alignas(64) char name[OBJECT]
#define FUNCTION_STUB(name)                                                              \
	VISIBLE void name(void);                                                         \
	void name(void)                                                                  \
	{                                                                                \
		end(#name);                                                              \
	}

OBJECT_STUB(PyBytes_Type);
OBJECT_STUB(PyCapsule_Type);
OBJECT_STUB(PyDict_Type);
OBJECT_STUB(PyExc_AttributeError);
OBJECT_STUB(PyExc_BufferError);
OBJECT_STUB(PyExc_ImportError);
OBJECT_STUB(PyExc_IndexError);
OBJECT_STUB(PyExc_KeyError);
OBJECT_STUB(PyExc_MemoryError);
OBJECT_STUB(PyExc_ModuleNotFoundError);
OBJECT_STUB(PyExc_OverflowError);
OBJECT_STUB(PyExc_RuntimeError);
OBJECT_STUB(PyExc_RuntimeWarning);
OBJECT_STUB(PyExc_StopIteration);
OBJECT_STUB(PyExc_SystemError);
OBJECT_STUB(PyExc_TypeError);
OBJECT_STUB(PyExc_ValueError);
OBJECT_STUB(PyFloat_Type);
OBJECT_STUB(PyList_Type);
OBJECT_STUB(PyLong_Type);
OBJECT_STUB(PyModule_Type);
OBJECT_STUB(PyTuple_Type);
OBJECT_STUB(PyType_Type);
OBJECT_STUB(PyUnicode_Type);
OBJECT_STUB(Py_GenericAliasType);
OBJECT_STUB(_PyWeakref_RefType);
OBJECT_STUB(_Py_FalseStruct);
OBJECT_STUB(_Py_NoneStruct);
OBJECT_STUB(_Py_NotImplementedStruct);
OBJECT_STUB(_Py_TrueStruct);

FUNCTION_STUB(PyObject_GenericGetDict)
FUNCTION_STUB(PyObject_GenericSetDict)
FUNCTION_STUB(PyObject_Vectorcall)
FUNCTION_STUB(PyObject_VectorcallMethod)
FUNCTION_STUB(PyType_GenericNew)
FUNCTION_STUB(PyVectorcall_Call)
FUNCTION_STUB(Py_GenericAlias)
