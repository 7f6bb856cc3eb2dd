//! One type per index space, so that the compiler keeps them apart.

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);
    )* };
}

index! {
    /// Position of an element in the whole dimension.
    GlobalElement;
    /// Position of a tile in the whole dimension.
    GlobalTile;
    /// Position of an element in one process's buffer.
    LocalElement;
    /// Position of a tile in one process's buffer.
    LocalTile;
    /// Position of an element within its tile.
    ElementInTile;
}
