//! Runs StableHLO programs by a PJRT plugin: XLA for CPUs, GPUs or TPUs as a shared library.
//!
//! A [`Plugin`] is loaded by its path, a [`Client`] has its devices, and [`Client::compile`] makes an [`Executable`] of
//! the text that `gradloom-stablehlo` exports. Arguments and results are [`Buffer`]s, which stay on their device: the
//! results of a step can be the arguments of the next.
//!
//! ```no_run
//! # fn main() -> Result<(), gradloom_pjrt::PjrtError> {
//! use gradloom_pjrt::{Element, Plugin};
//!
//! let client = Plugin::load("xla_cpu_pjrt.so".as_ref())?.client()?;
//! let text = "module @m { func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!   %0 = stablehlo.add %x, %x : tensor<2xf32>
//!   return %0 : tensor<2xf32> } }";
//! let double = client.compile(text, 1)?;
//! let bytes: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let x = client.buffer(Element::F32, &[2], &bytes, 0)?;
//! let y = double.run(&[&x])?;
//! let y = double.run(&[&y[0]])?; // the buffer has not left the device
//! println!("{:?}", y[0].to_bytes()?);
//! # Ok(())
//! # }
//! ```
//!
//! # Several devices
//!
//! A program with Shardy annotations is compiled for `n` devices and run by [`Executable::run_on`]: XLA partitions it
//! and inserts the collectives.
//!
//! # Safety of plugins
//!
//! A plugin runs its code in this process, so load only files that you trust.

mod bindings;
mod options;
mod signature;

use bindings::{Api, At, Function, Handle};
use std::ffi::{c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// Error of a plugin, or of its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PjrtError {
    /// The file is not a shared library with a PJRT interface.
    NotAPlugin {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
    /// The plugin refused a call: the message of XLA.
    Refused {
        /// The request.
        call: &'static str,
        /// Its message.
        message: String,
    },
    /// A number of arguments, bytes or devices is wrong.
    Length {
        /// The counted things.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The number expected.
        expected: usize,
    },
    /// An argument has another element type or shape than the parameter of the program.
    Argument {
        /// The position of the argument.
        position: usize,
        /// The device whose argument it is.
        device: usize,
        /// Its element type and shape.
        found: (Element, Vec<usize>),
        /// Those of the parameter.
        expected: (Element, Vec<usize>),
    },
    /// There is no device with this number.
    Device {
        /// The number.
        device: usize,
        /// The number of devices.
        n_devices: usize,
    },
    /// A program is compiled for no devices, or for more than the client has.
    ProgramDevices {
        /// The number of devices of the program.
        found: usize,
        /// The number of devices of the client.
        n_devices: usize,
    },
    /// The plugin returned elements of a type that gradloom has not.
    Element {
        /// The number of the type in PJRT.
        number: i32,
    },
}

impl fmt::Display for PjrtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PjrtError::NotAPlugin { path, reason } => {
                write!(f, "`{path}` is not a PJRT plugin: {reason}")
            }
            PjrtError::Refused { call, message } => write!(f, "XLA cannot {call}: {message}"),
            PjrtError::Length {
                what,
                found,
                expected,
            } => write!(f, "{found} {what}, expected {expected}"),
            PjrtError::Argument {
                position,
                device,
                found,
                expected,
            } => write!(
                f,
                "argument {position} on device {device} is {:?}{:?}, expected {:?}{:?}",
                found.0, found.1, expected.0, expected.1
            ),
            PjrtError::Device { device, n_devices } => {
                write!(f, "there is no device {device}: the client has {n_devices}")
            }
            PjrtError::ProgramDevices { found, n_devices } => write!(
                f,
                "a program cannot be compiled for {found} devices: at least 1, and up to {n_devices}, are possible"
            ),
            PjrtError::Element { number } => {
                write!(
                    f,
                    "XLA returned elements of type {number}, which gradloom has not"
                )
            }
        }
    }
}

impl std::error::Error for PjrtError {}

type Result<T> = std::result::Result<T, PjrtError>;

/// The type of an element of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Element {
    Bool,
    I32,
    I64,
    I8,
    U8,
    F32,
    F64,
    BF16,
    F16,
}

impl Element {
    const ALL: [(Element, c_int); 9] = [
        (Element::Bool, 1),
        (Element::I8, 2),
        (Element::I32, 4),
        (Element::I64, 5),
        (Element::U8, 6),
        (Element::F16, 10),
        (Element::F32, 11),
        (Element::F64, 12),
        (Element::BF16, 13),
    ];

    /// Returns the type with a name in StableHLO.
    fn named(name: &str) -> Option<Element> {
        Some(match name {
            "i1" => Element::Bool,
            "i32" => Element::I32,
            "i64" => Element::I64,
            "i8" => Element::I8,
            "ui8" => Element::U8,
            "f32" => Element::F32,
            "f64" => Element::F64,
            "bf16" => Element::BF16,
            "f16" => Element::F16,
            _ => return None,
        })
    }

    fn number(self) -> c_int {
        let of = Element::ALL.iter().find(|(element, _)| *element == self);
        of.map_or(0, |(_, number)| *number)
    }

    fn from_number(number: c_int) -> Result<Element> {
        let of = Element::ALL.iter().find(|(_, of)| *of == number);
        of.map(|(element, _)| *element)
            .ok_or(PjrtError::Element { number })
    }

    /// Returns the number of bytes.
    pub fn size(self) -> usize {
        match self {
            Element::Bool | Element::I8 | Element::U8 => 1,
            Element::BF16 | Element::F16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::I64 | Element::F64 => 8,
        }
    }
}

/// A loaded plugin.
#[derive(Clone)]
pub struct Plugin {
    api: *const Api,
}

// SAFETY: the table of functions is constant, and PJRT's functions may be called by any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plugin({:?})", self.version())
    }
}

impl Plugin {
    /// Loads a plugin. It stays loaded until the process ends: XLA has threads of its own.
    ///
    /// The file runs its code in this process, so it must be one that you trust.
    ///
    /// # Errors
    ///
    /// If the file is not a shared library with the function `GetPjrtApi`, its interface is too old, or it does not
    /// start.
    pub fn load(path: &Path) -> Result<Plugin> {
        let not = |reason: String| PjrtError::NotAPlugin {
            path: path.display().to_string(),
            reason,
        };
        // SAFETY: the caller trusts the file, as the documentation says.
        let library = unsafe { libloading::Library::new(path) };
        let library = ManuallyDrop::new(library.map_err(|e| not(e.to_string()))?);
        type GetApi = unsafe extern "C" fn() -> *const Api;
        // SAFETY: `GetPjrtApi` of a PJRT plugin has this type.
        let get = unsafe { library.get::<GetApi>(b"GetPjrtApi") };
        let get = get.map_err(|e| not(e.to_string()))?;
        // SAFETY: as above. The library is never unloaded.
        let api = unsafe { get() };
        if api.is_null() {
            return Err(not("it has no table of functions".into()));
        }
        let plugin = Plugin { api };
        // SAFETY: the table begins with its size.
        let size = unsafe { (*api).struct_size };
        let needed =
            size_of::<Api>() + (At::BufferToHostBuffer as usize + 1) * size_of::<Function>();
        if size < needed {
            return Err(not(format!(
                "its table has {size} bytes, at least {needed} are needed"
            )));
        }
        plugin.call("start", At::PluginInitialize, &mut bindings::Plain::new())?;
        Ok(plugin)
    }

    /// Returns the major and minor version of its interface.
    pub fn version(&self) -> (i32, i32) {
        // SAFETY: the table lives as long as the process.
        let version = unsafe { &(*self.api).version };
        (version.major, version.minor)
    }

    /// Returns a client of its devices.
    ///
    /// # Errors
    ///
    /// If the plugin has no devices, or they are in use.
    pub fn client(&self) -> Result<Client> {
        let mut args = bindings::ClientCreate::new();
        self.call("make a client", At::ClientCreate, &mut args)?;
        let handle = Owned::new(self, args.client, At::ClientDestroy);
        let mut args = bindings::ClientAddressableDevices::new();
        args.client = handle.handle;
        self.call("list devices", At::ClientAddressableDevices, &mut args)?;
        // SAFETY: the plugin returns an array that lives as long as the client.
        let devices = unsafe { slice(args.devices, args.num_devices) }.to_vec();
        Ok(Client(Arc::new(ClientParts { handle, devices })))
    }

    /// Calls a function of the plugin. `asked` completes "XLA cannot".
    fn call<T>(&self, asked: &'static str, at: At, args: &mut T) -> Result<()> {
        // SAFETY: `load` has checked that the table has this function, and `args` is its struct of arguments.
        let error = unsafe { self.function(at)(ptr::from_mut(args).cast()) };
        if error.is_null() {
            return Ok(());
        }
        let mut text = bindings::ErrorMessage::new();
        text.error = error;
        // SAFETY: as above, with an error that the plugin returned.
        unsafe { self.function(At::ErrorMessage)(ptr::from_mut(&mut text).cast()) };
        // SAFETY: the message lives as long as the error.
        let message = unsafe { slice(text.message.cast::<u8>(), text.message_size) };
        let message = String::from_utf8_lossy(message).into_owned();
        let mut of_error = bindings::OfHandle::new();
        of_error.handle = error;
        // SAFETY: as above. The error is not used again.
        unsafe { self.function(At::ErrorDestroy)(ptr::from_mut(&mut of_error).cast()) };
        Err(PjrtError::Refused {
            call: asked,
            message,
        })
    }

    /// Returns a function of the table.
    ///
    /// # Safety
    ///
    /// The table must have the function.
    unsafe fn function(&self, at: At) -> Function {
        // SAFETY: the functions follow the head, and the caller says that this one exists.
        unsafe { *self.api.add(1).cast::<Function>().add(at as usize) }
    }

    /// Waits for an event, and destroys it.
    fn wait(&self, asked: &'static str, event: Handle) -> Result<()> {
        if event.is_null() {
            return Ok(());
        }
        let event = Owned::new(self, event, At::EventDestroy);
        let mut args = bindings::OfHandle::new();
        args.handle = event.handle;
        self.call(asked, At::EventAwait, &mut args)
    }
}

/// Returns a slice of an array of C, which may be null if it is empty.
///
/// # Safety
///
/// As for `std::slice::from_raw_parts`, if `n` is not 0.
unsafe fn slice<'a, T>(data: *const T, n: usize) -> &'a [T] {
    match n == 0 || data.is_null() {
        true => &[],
        // SAFETY: the caller says so.
        false => unsafe { std::slice::from_raw_parts(data, n) },
    }
}

/// An object of the plugin, destroyed when it is dropped.
struct Owned {
    plugin: Plugin,
    handle: Handle,
    destroy: At,
}

// SAFETY: PJRT's objects may be used and destroyed by any thread.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl Owned {
    fn new(plugin: &Plugin, handle: Handle, destroy: At) -> Owned {
        Owned {
            plugin: plugin.clone(),
            handle,
            destroy,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut args = bindings::OfHandle::new();
        args.handle = self.handle;
        // A destructor has nobody to tell.
        let _ = self.plugin.call("free an object", self.destroy, &mut args);
    }
}

/// The devices of a plugin.
#[derive(Clone)]
pub struct Client(Arc<ClientParts>);

struct ClientParts {
    handle: Owned,
    devices: Vec<Handle>,
}

// SAFETY: devices belong to the client, and PJRT's objects may be used by any thread.
unsafe impl Send for ClientParts {}
// SAFETY: as above.
unsafe impl Sync for ClientParts {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} devices)", self.n_devices())
    }
}

impl Client {
    fn plugin(&self) -> &Plugin {
        &self.0.handle.plugin
    }

    /// Returns the number of devices.
    pub fn n_devices(&self) -> usize {
        self.0.devices.len()
    }

    /// Returns the name of the platform, such as `cpu`.
    ///
    /// # Errors
    ///
    /// If the plugin does not tell.
    pub fn platform(&self) -> Result<String> {
        let mut args = bindings::ClientPlatformName::new();
        args.client = self.0.handle.handle;
        self.plugin()
            .call("name its platform", At::ClientPlatformName, &mut args)?;
        // SAFETY: the name lives as long as the client.
        let name = unsafe { slice(args.name.cast::<u8>(), args.name_size) };
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// Compiles StableHLO text for the first `n_devices` devices.
    ///
    /// With more than one, XLA partitions the program by its Shardy annotations. If the [`platform`](Client::platform) is
    /// `cpu`, the option `xla_cpu_enable_fast_min_max` is set to false, because that shortcut loses NaN. Plugins of other
    /// platforms get no such option.
    ///
    /// # Errors
    ///
    /// If there are fewer devices, `n_devices` is 0, or XLA does not compile the text: [`PjrtError::Refused`] has its message.
    pub fn compile(&self, text: &str, n_devices: usize) -> Result<Executable> {
        if n_devices == 0 || n_devices > self.n_devices() {
            return Err(PjrtError::ProgramDevices {
                found: n_devices,
                n_devices: self.n_devices(),
            });
        }
        let mut code = text.as_bytes().to_vec();
        let format = b"mlir";
        let mut program = bindings::Program::new();
        program.code = code.as_mut_ptr().cast();
        program.code_size = code.len();
        program.format = format.as_ptr().cast();
        program.format_size = format.len();
        let options = options::of(n_devices, self.platform()? == "cpu");
        let mut args = bindings::ClientCompile::new();
        args.client = self.0.handle.handle;
        args.program = &program;
        args.compile_options = options.as_ptr().cast();
        args.compile_options_size = options.len();
        self.plugin()
            .call("compile the program", At::ClientCompile, &mut args)?;
        let loaded = Owned::new(self.plugin(), args.executable, At::LoadedExecutableDestroy);

        let mut args = bindings::GetExecutable::new();
        args.loaded = loaded.handle;
        self.plugin().call(
            "describe the program",
            At::LoadedExecutableGetExecutable,
            &mut args,
        )?;
        let executable = Owned::new(self.plugin(), args.executable, At::ExecutableDestroy);
        let mut args = bindings::NumOutputs::new();
        args.executable = executable.handle;
        self.plugin()
            .call("count the results", At::ExecutableNumOutputs, &mut args)?;
        Ok(Executable {
            client: self.clone(),
            loaded,
            n_devices,
            params: signature::parameters(text),
            n_outs: args.num_outputs,
        })
    }

    /// Copies elements to a device. `bytes` holds them in row-major order, least byte first.
    ///
    /// # Errors
    ///
    /// If the number of bytes is wrong, there is no such device, or it has no memory left.
    pub fn buffer(
        &self,
        element: Element,
        shape: &[usize],
        bytes: &[u8],
        device: usize,
    ) -> Result<Buffer> {
        self.check_device(device)?;
        let expected = shape.iter().product::<usize>() * element.size();
        if bytes.len() != expected {
            return Err(PjrtError::Length {
                what: "bytes",
                found: bytes.len(),
                expected,
            });
        }
        let dims: Vec<i64> = shape.iter().map(|len| *len as i64).collect();
        let mut args = bindings::ClientBufferFromHostBuffer::new();
        args.client = self.0.handle.handle;
        args.data = bytes.as_ptr().cast();
        args.element = element.number();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.semantics = bindings::IMMUTABLE_ONLY_DURING_CALL;
        args.device = self.0.devices[device];
        self.plugin().call(
            "copy to the device",
            At::ClientBufferFromHostBuffer,
            &mut args,
        )?;
        let buffer = self.own(args.buffer);
        self.plugin()
            .wait("copy to the device", args.done_with_host_buffer)?;
        Ok(buffer)
    }

    fn own(&self, handle: Handle) -> Buffer {
        Buffer {
            handle: Owned::new(self.plugin(), handle, At::BufferDestroy),
            client: self.clone(),
        }
    }

    fn check_device(&self, device: usize) -> Result<()> {
        match device < self.n_devices() {
            true => Ok(()),
            false => Err(PjrtError::Device {
                device,
                n_devices: self.n_devices(),
            }),
        }
    }
}

/// A compiled program.
pub struct Executable {
    client: Client,
    loaded: Owned,
    n_devices: usize,
    /// The types of the parameters, if the text has them in the usual form.
    params: Option<Vec<signature::Type>>,
    n_outs: usize,
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Executable({} results, {} devices)",
            self.n_outs, self.n_devices
        )
    }
}

impl Executable {
    /// Returns the number of results.
    pub fn n_outs(&self) -> usize {
        self.n_outs
    }

    /// Runs the program on one device and returns its results, which stay there.
    ///
    /// # Errors
    ///
    /// If the number or the types of the arguments are wrong, or the program was compiled for several devices.
    pub fn run(&self, args: &[&Buffer]) -> Result<Vec<Buffer>> {
        let mut outs = self.run_on(&[args])?;
        Ok(outs.pop().unwrap_or_default())
    }

    /// Runs the program on all its devices. There is a list of arguments, and of results, for each.
    ///
    /// # Errors
    ///
    /// If a number of arguments or devices is wrong, or the types of arguments are.
    pub fn run_on(&self, args: &[&[&Buffer]]) -> Result<Vec<Vec<Buffer>>> {
        let length = |what, found, expected| match found == expected {
            true => Ok(()),
            false => Err(PjrtError::Length {
                what,
                found,
                expected,
            }),
        };
        length("lists of arguments", args.len(), self.n_devices)?;
        for (device, list) in args.iter().enumerate() {
            let n_params = self.params.as_ref().map_or(args[0].len(), Vec::len);
            length("arguments", list.len(), n_params)?;
            self.check(device, list)?;
        }
        let handles: Vec<Vec<Handle>> = args
            .iter()
            .map(|list| list.iter().map(|x| x.handle.handle).collect())
            .collect();
        let lists: Vec<*const Handle> = handles.iter().map(|list| list.as_ptr()).collect();
        let mut outs = vec![vec![ptr::null_mut(); self.n_outs]; self.n_devices];
        let out_lists: Vec<*mut Handle> = outs.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events: Vec<Handle> = vec![ptr::null_mut(); self.n_devices];
        let mut options = bindings::ExecuteOptions::new();
        let mut args = bindings::Execute::new();
        args.executable = self.loaded.handle;
        args.options = &mut options;
        args.argument_lists = lists.as_ptr();
        args.num_devices = self.n_devices;
        args.num_args = handles[0].len();
        args.output_lists = out_lists.as_ptr();
        args.device_complete_events = events.as_mut_ptr();
        let plugin = self.client.plugin();
        plugin.call("run the program", At::LoadedExecutableExecute, &mut args)?;
        let own = |list: Vec<Handle>| list.into_iter().map(|out| self.client.own(out)).collect();
        let outs: Vec<Vec<Buffer>> = outs.into_iter().map(own).collect();
        // Every event is awaited, also after an error, so that none outlives its arguments.
        let ends: Vec<Result<()>> = events
            .into_iter()
            .map(|event| plugin.wait("run the program", event))
            .collect();
        ends.into_iter().collect::<Result<()>>()?;
        Ok(outs)
    }
}

impl Executable {
    /// Compares the types of arguments with those of the parameters.
    ///
    /// A device of several has a part of a parameter, so its lengths may be smaller.
    fn check(&self, device: usize, args: &[&Buffer]) -> Result<()> {
        let params = self.params.iter().flatten();
        for (position, (x, expected)) in args.iter().zip(params).enumerate() {
            let found = (x.element()?, x.shape()?);
            let fits = match self.n_devices {
                1 => found.1 == expected.1,
                _ => found.1.len() == expected.1.len(),
            };
            if found.0 != expected.0 || !fits {
                return Err(PjrtError::Argument {
                    position,
                    device,
                    found,
                    expected: expected.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Elements on a device.
pub struct Buffer {
    // Dropped before the client, which it belongs to.
    handle: Owned,
    client: Client,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {:?})", self.element(), self.shape())
    }
}

impl Buffer {
    /// Returns the type of the elements.
    ///
    /// # Errors
    ///
    /// If gradloom has no such type.
    pub fn element(&self) -> Result<Element> {
        let mut args = bindings::BufferElementType::new();
        args.buffer = self.handle.handle;
        self.client
            .plugin()
            .call("describe a buffer", At::BufferElementType, &mut args)?;
        Element::from_number(args.element)
    }

    /// Returns the lengths of the axes.
    ///
    /// # Errors
    ///
    /// If the plugin does not tell.
    pub fn shape(&self) -> Result<Vec<usize>> {
        let mut args = bindings::BufferDimensions::new();
        args.buffer = self.handle.handle;
        self.client
            .plugin()
            .call("describe a buffer", At::BufferDimensions, &mut args)?;
        // SAFETY: the lengths live as long as the buffer.
        let dims = unsafe { slice(args.dims, args.num_dims) };
        Ok(dims.iter().map(|len| *len as usize).collect())
    }

    /// Copies the elements from the device: in row-major order, least byte first.
    ///
    /// # Errors
    ///
    /// If the elements have a type that gradloom has not, or computing them failed.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let size = self.shape()?.iter().product::<usize>() * self.element()?.size();
        let mut bytes = vec![0u8; size];
        let mut args = bindings::ToHostBuffer::new();
        args.src = self.handle.handle;
        args.dst = bytes.as_mut_ptr().cast::<c_void>();
        args.dst_size = size;
        let plugin = self.client.plugin();
        plugin.call("copy from the device", At::BufferToHostBuffer, &mut args)?;
        plugin.wait("copy from the device", args.event)?;
        Ok(bytes)
    }
}
