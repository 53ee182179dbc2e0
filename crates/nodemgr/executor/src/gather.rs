//! Several things at once.

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

/// Does things, at most so many at once, begun in this order; answers in this order, or with the first failure.
pub(crate) async fn gather<T, E>(
    most: usize,
    things: Vec<BoxFuture<'_, Result<T, E>>>,
) -> Result<Vec<T>, E> {
    stream::iter(things).buffered(most).try_collect().await
}
